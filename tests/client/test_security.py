"""The client's settings of TLS and SASL."""

import pytest

from odradek.client.security import (
    PLAINTEXT,
    combined,
    parse_security,
    read_client_properties,
    settings_in_environment,
)
from odradek.core.sasl.client import Credential

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_without_settings():
    assert parse_security({"acks": "all"}) == PLAINTEXT
    assert parse_security({"security.protocol": "plaintext"}) == PLAINTEXT


def test_a_file_for_java(tmp_path):
    (tmp_path / "ca.pem").touch()
    (tmp_path / "client.properties").write_text(
        f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={SCRAM} required \\
    username="alice" password="a\\\\"b";
ssl.truststore.type=PEM
ssl.truststore.location={tmp_path}/ca.pem
ssl.endpoint.identification.algorithm=
bootstrap.servers=localhost:9093
"""
    )
    security = parse_security(read_client_properties(tmp_path / "client.properties"))
    assert security.protocol == "SASL_SSL"
    assert security.credential == Credential("SCRAM-SHA-512", "alice", 'a"b')
    assert security.tls.trust_file == f"{tmp_path}/ca.pem"
    assert (security.tls.verifies_server, security.tls.verifies_host) == (True, False)
    assert 'a"b' not in repr(security)


def test_a_later_source_replaces_other_names_of_the_same_settings():
    file = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="admin" password="admin-secret";',
    }
    variables = {"sasl.password": "bob-secret"}
    options = {"sasl.username": "bob", "sasl.mechanisms": "SCRAM-SHA-512"}
    credential = parse_security(combined(file, variables, options)).credential
    assert credential == Credential("SCRAM-SHA-512", "bob", "bob-secret")
    with pytest.raises(ValueError, match="there is no password"):
        parse_security(combined(file, {"sasl.username": "bob"}))
    assert parse_security(combined(file, variables)).credential == Credential(
        "PLAIN", "admin", "bob-secret"
    )
    assert parse_security(combined(options, variables, file)).credential.user == "admin"


def test_names_of_librdkafka(tmp_path):
    for name in ("ca", "crt", "key"):
        (tmp_path / name).touch()
    security = parse_security(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "ssl.ca.location": f"{tmp_path}/ca",
            "ssl.certificate.location": f"{tmp_path}/crt",
            "ssl.key.location": f"{tmp_path}/key",
            "ssl.key.password": "key-secret",
            "enable.ssl.certificate.verification": "false",
        }
    )
    assert security.credential == Credential("PLAIN", "alice", "secret")
    tls = security.tls
    assert (tls.trust_file, tls.certificate_file, tls.key_file) == tuple(
        f"{tmp_path}/{name}" for name in ("ca", "crt", "key")
    )
    assert not tls.verifies_server
    assert "secret" not in repr(security)


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        ({**SASL, "sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism is DIGEST-MD5"),
        (SASL, "there is no user"),
        ({**SASL, "sasl.username": "alice"}, "there is no password"),
        ({**SASL, "sasl.jaas.config": f"{SCRAM} required;"}, "login module of PLAIN is .*Plain"),
        ({**SASL, "sasl.jaas.config": f"{PLAIN} required;"}, "there is no user"),
        ({**SASL, "sasl.jaas.config": f"{PLAIN} required"}, "semicolon"),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "BKS",
                "ssl.truststore.location": __file__,
            },
            "BKS; it must be one of PEM, PKCS12",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such"}, "/no/such does not exist"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "may have TLSv1.2"),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.password": "x",
                "ssl.keystore.location": __file__,
            },
            "ssl.key.password",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "must be https or empty",
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": __file__},
            "needs ssl.key.location",
        ),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"},
            "must be true or false",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings, problem):
    with pytest.raises(ValueError, match=problem):
        parse_security(settings)


def test_a_key_as_text():
    settings = {"security.protocol": "SSL", "ssl.keystore.key": "the key"}
    with pytest.raises(ValueError, match="need each other"):
        parse_security(settings)
    settings["ssl.keystore.certificate.chain"] = "the chain"
    security = parse_security(settings)
    assert security.tls.key_text == "the key\nthe chain"
    assert "the key" not in repr(security)
    with pytest.raises(ValueError, match="not both"):
        parse_security({**settings, "ssl.keystore.location": __file__})


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*missing: No such file"):
        read_client_properties(tmp_path / "missing")
    (tmp_path / "malformed").write_text("a=\\u12")
    with pytest.raises(ValueError, match="malformed: line 1"):
        read_client_properties(tmp_path / "malformed")


def test_environment_variables():
    found = settings_in_environment(
        {"ODRADEK_CLIENT_SASL_PASSWORD": "x", "ODRADEK_CLIENT_NO_SUCH": "y", "HOME": "/"}
    )
    assert found == {"sasl.password": "x", "no.such": "y"}


def test_a_store_that_is_no_file_or_in_the_format_jks(tmp_path):
    jks = tmp_path / "key.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    settings = {"security.protocol": "SSL", "ssl.truststore.password": "x"}
    keys = {"ssl.keystore.password": "store", "ssl.key.password": "key"}
    tls = parse_security({**settings, "ssl.keystore.location": str(jks), **keys}).tls
    assert tls is not None
    assert (tls.key_type, tls.key_password, tls.inner_key_password) == ("JKS", "store", "key")
    with pytest.raises(ValueError, match=r"ssl\.truststore\.location: .* is a directory"):
        parse_security({**settings, "ssl.truststore.location": str(tmp_path)})
