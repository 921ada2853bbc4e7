"""Keys and certificates in PKCS#12 and JKS files, on a listener and of clients."""

import subprocess
from pathlib import Path

import pytest
from compat.lab.toolchain import Missing, require
from confluent_kafka.admin import AdminClient

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.env import key_store
from odradek.env.certificate_names import certificate_names
from odradek.env.tls_context import make_client_context, make_context
from odradek.env.tls_files import JKS, PKCS12, ClientTls, ServerTls, TlsError
from odradek.testing import Broker

WORD = "store-secret"


def openssl(*words):
    command = ("openssl", "pkcs12", "-export", *words, "-passout", f"pass:{WORD}")
    subprocess.run([*map(str, command)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def stores(pki, tmp_path_factory):
    """The PKCS#12 files of the server, of alice, and with the authority."""
    directory = tmp_path_factory.mktemp("stores")
    found = {name: str(directory / f"{name}.p12") for name in ("server", "alice", "trust")}
    for name in ("server", "alice"):
        openssl("-in", getattr(pki, name), "-certfile", pki.ca, "-out", found[name])
    openssl("-nokeys", "-in", pki.ca, "-out", found["trust"])
    return found


@pytest.fixture(scope="module")
def port(stores):
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": stores["server"],
        "ssl.keystore.password": WORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": stores["trust"],
        "ssl.truststore.password": WORD,
        "ssl.client.auth": "required",
    }
    with Broker(topics={"orders": 1}, settings=settings) as broker:
        (found,) = [each.port for each in broker.node.server.endpoints if each.name == "SSL"]
        yield found


def client_settings(stores, **changes):
    return {
        "security.protocol": "SSL",
        "ssl.keystore.location": stores["alice"],
        "ssl.keystore.password": WORD,
        "ssl.truststore.location": stores["trust"],
        "ssl.truststore.password": WORD,
        **changes,
    }


@pytest.mark.parametrize("store_type", ["", "PKCS12"])
def test_our_client(port, stores, store_type):
    types = {"ssl.keystore.type": store_type, "ssl.truststore.type": store_type}
    security = parse_security(client_settings(stores, **types))
    assert WORD not in repr(security)
    with Cluster(f"127.0.0.1:{port}", security=security) as cluster:
        assert "orders" in cluster.refresh().topics


def test_librdkafka_uses_the_same_file(port, stores, pki):
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SSL",
        "ssl.keystore.location": stores["alice"],
        "ssl.keystore.password": WORD,
        "ssl.ca.location": pki.ca,
        "log_level": 0,
    }
    assert "orders" in AdminClient(settings).list_topics(timeout=20).topics


def test_a_client_without_a_certificate_is_refused(port, stores):
    settings = client_settings(stores)
    del settings["ssl.keystore.location"], settings["ssl.keystore.password"]
    with (
        pytest.raises(ClientError),
        Cluster(f"127.0.0.1:{port}", security=parse_security(settings), timeout_ms=5000) as cluster,
    ):
        cluster.refresh()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"key_password": "wrong"}, "cannot use the key and the certificate in .*server.p12: "),
        ({"key_password": ""}, "cannot use the key and the certificate in .*server.p12: "),
        ({"key_file": "/no/such.p12"}, "in /no/such.p12: .*No such file"),
        ({"key_file": __file__}, "cannot use the key"),
        ({"key_file": "trust"}, "it has no private key"),
        ({"trust_password": "wrong"}, "cannot use the certificates in .*trust.p12: "),
    ],
)
def test_files_that_cannot_be_used(stores, changes, problem):
    fields = {
        "key_file": stores["server"],
        "key_password": WORD,
        "trust_file": stores["trust"],
        "trust_password": WORD,
        **changes,
    }
    fields["key_file"] = stores.get(fields["key_file"], fields["key_file"])
    with pytest.raises(TlsError, match=problem) as failure:
        make_context(ServerTls(**fields, key_type=PKCS12, trust_type=PKCS12))
    assert WORD not in str(failure.value)


def test_the_key_is_never_written_in_plain(stores):
    with key_store.key_file(stores["server"], WORD) as (path, word):
        text = Path(path).read_text()
        assert "ENCRYPTED PRIVATE KEY" in text
        assert text.count("BEGIN CERTIFICATE") == 2, "the server and its issuer"
        assert Path(path).stat().st_mode & 0o077 == 0
        assert word != WORD
    assert not Path(path).exists()


def test_a_changed_file_is_read_again(stores, pki, tmp_path):
    file = tmp_path / "changing.p12"
    file.write_bytes(Path(stores["trust"]).read_bytes())
    before = key_store.certificates(str(file), WORD)
    assert before == key_store.certificates(str(file), WORD)
    openssl("-nokeys", "-in", pki.server, "-out", file)
    assert key_store.certificates(str(file), WORD) != before


def test_the_default_type(stores):
    """As in Java, a PKCS#12 file can have the type JKS."""
    trust = {"trust_file": stores["trust"], "trust_password": WORD, "trust_type": JKS}
    make_context(ServerTls(stores["server"], WORD, **trust, key_type=JKS))
    names = certificate_names(ServerTls(stores["server"], WORD, key_type=JKS))
    assert names is not None
    assert names.subject == "CN=server,O=example"


def test_a_pem_file_is_not_opened_with_the_default_type(tmp_path):
    file = tmp_path / "key.pem"
    file.write_bytes(b"-----BEGIN")
    with pytest.raises(
        TlsError, match=r"no PKCS#12 or JKS file\. If it is a PEM file, set the type"
    ):
        make_context(ServerTls(str(file), WORD, key_type=JKS))


def keytool(*words):
    try:
        program = Path(require("java")).with_name("keytool")
    except Missing as reason:
        pytest.skip(str(reason))
    subprocess.run([*map(str, (program, *words))], check=True, capture_output=True)


@pytest.mark.java
@pytest.mark.parametrize("kind", [PKCS12, JKS])
@pytest.mark.parametrize("named", [PKCS12, JKS])
def test_a_trust_store_of_keytool(pki, tmp_path, kind, named):
    file = tmp_path / "trust"
    words = ("-importcert", "-noprompt", "-alias", "ca", "-file", pki.ca, "-keystore", file)
    keytool(*words, "-storetype", kind, "-storepass", WORD)
    tls = ClientTls(trust_file=str(file), trust_type=named, trust_password=WORD)
    context = make_client_context(tls)
    assert [dict(each[0] for each in ca["subject"]) for ca in context.get_ca_certs()] == [
        {"commonName": "test authority"}
    ]


@pytest.mark.java
@pytest.mark.parametrize("key_word", [WORD, "key-secret"])
def test_a_node_and_a_client_with_jks_files_of_keytool(stores, tmp_path, pki, key_word):
    """The server and alice have JKS files, whose keys may have passwords of their own."""
    files = {name: tmp_path / f"{name}.jks" for name in ("server", "alice")}
    for name, file in files.items():
        source = ("-srckeystore", stores[name], "-srcstoretype", "PKCS12", "-srcstorepass", WORD)
        target = ("-destkeystore", file, "-deststoretype", "JKS", "-deststorepass", WORD)
        names = ("-srcalias", "1", "-destkeypass", key_word)
        keytool("-importkeystore", "-noprompt", *source, *target, *names)
    trust = tmp_path / "trust.jks"
    words = ("-importcert", "-noprompt", "-alias", "ca", "-file", pki.ca, "-keystore", trust)
    keytool(*words, "-storetype", "JKS", "-storepass", WORD)
    own_word = {} if key_word == WORD else {"ssl.key.password": key_word}
    settings = {
        "ssl.keystore.password": WORD,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": WORD,
        **own_word,
    }
    node = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(files["server"]),
        "ssl.client.auth": "required",
    }
    with Broker(topics={"orders": 1}, settings={**settings, **node}) as broker:
        (port,) = [each.port for each in broker.node.server.endpoints if each.name == "SSL"]
        client = {"security.protocol": "SSL", "ssl.keystore.location": str(files["alice"])}
        security = parse_security({**settings, **client})
        with Cluster(f"127.0.0.1:{port}", security=security) as cluster:
            assert "orders" in cluster.refresh().topics
    tls = ServerTls(str(files["server"]), WORD, key_type=JKS, inner_key_password="wrong")
    with pytest.raises(TlsError, match="the password of the key is wrong"):
        make_context(tls)
    names = certificate_names(ServerTls(str(files["server"]), WORD, key_type=JKS))
    assert names is not None
    assert names.subject == "CN=server,O=example"
