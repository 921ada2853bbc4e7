"""The wheels of confluent-kafka have no GSSAPI; their error says so."""

import pytest
from compat.drivers.python.confluent_login import login
from compat.drivers.python.lines import UnsupportedVerb
from confluent_kafka import KafkaException, Producer

GSSAPI = {
    "bootstrap.servers": "localhost:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
}


def has_gssapi():
    try:
        Producer({**GSSAPI, "sasl.kerberos.kinit.cmd": "true", "log_level": 0})
    except KafkaException:
        return False
    return True


@pytest.mark.skipif(has_gssapi(), reason="this librdkafka is built with libsasl2")
def test_the_error_of_a_library_without_gssapi_is_the_reason_to_skip(tmp_path, monkeypatch):
    for name in ("KRB5_CONFIG", "KRB5CCNAME"):
        monkeypatch.setenv(name, "restored after the test")
    command = {
        "bootstrap": "localhost:1",
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "GSSAPI",
        "service": "kafka",
        "principal": "alice",
        "krb5": str(tmp_path / "krb5.conf"),
        "keys": str(tmp_path / "alice.keytab"),
        "timeout_ms": 1000,
    }
    with pytest.raises(UnsupportedVerb, match="No provider for SASL mechanism GSSAPI: recompile"):
        login(command)
