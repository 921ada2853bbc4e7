"""Keys and certificates as PEM text in the settings, on a listener and of clients (KIP-651)."""

import re
import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.env import pem
from odradek.env.certificate_names import certificate_names
from odradek.env.tls_context import make_context
from odradek.env.tls_files import ServerTls, TlsError
from odradek.testing import Broker

OBJECT = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)


def texts(file):
    """Return the key and the certificates in a file."""
    found = {
        each[1].rpartition(" ")[2]: each[0] for each in OBJECT.finditer(Path(file).read_text())
    }
    return found["KEY"], found["CERTIFICATE"]


def on_one_line(text):
    return " ".join(text.split("\n"))


@pytest.fixture(scope="module")
def broker(pki):
    key, chain = texts(pki.locked)
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": on_one_line(key),
        "ssl.keystore.certificate.chain": chain,
        "ssl.key.password": "key-secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": on_one_line(Path(pki.ca).read_text()),
        "ssl.client.auth": "required",
        "listener.name.ssl.ssl.allow.dn.changes": "true",
    }
    with Broker(topics={"orders": 1}, settings=settings) as running:
        yield running


@pytest.fixture
def port(broker):
    return {each.name: each.port for each in broker.node.server.endpoints}["SSL"]


def client_settings(pki, name):
    key, chain = texts(getattr(pki, name))
    return {
        "security.protocol": "SSL",
        "ssl.keystore.key": on_one_line(key),
        "ssl.keystore.certificate.chain": chain,
        "ssl.truststore.certificates": Path(pki.ca).read_text(),
    }


def test_our_client(port, pki):
    security = parse_security(client_settings(pki, "alice"))
    with Cluster(f"127.0.0.1:{port}", security=security) as cluster:
        assert "orders" in cluster.refresh().topics


def test_a_client_of_another_authority_is_refused(port, pki):
    security = parse_security(client_settings(pki, "stranger"))
    with (
        pytest.raises(ClientError),
        Cluster(f"127.0.0.1:{port}", security=security, timeout_ms=5000) as cluster,
    ):
        cluster.refresh()


def test_the_text_is_not_shown(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    (described,) = admin.describe_configs([resource]).values()
    found = described.result(20)
    for name in ("key", "certificate.chain"):
        assert found[f"ssl.keystore.{name}"].value is None
        assert found[f"ssl.keystore.{name}"].is_sensitive


def test_another_key_while_the_node_runs(broker, port, pki):
    key, chain = texts(pki.server)
    texts_by_name = {"key": key, "certificate.chain": chain}
    changes = [
        ConfigEntry(
            f"listener.name.ssl.ssl.keystore.{name}",
            text,
            incremental_operation=AlterConfigOpType.SET,
        )
        for name, text in texts_by_name.items()
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=changes)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(20)
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(pki.alice)
    subject = None
    while subject != ((("organizationName", "example"),), (("commonName", "server"),)):
        with (
            socket.create_connection(("127.0.0.1", port)) as connected,
            context.wrap_socket(connected, server_hostname="127.0.0.1") as client,
        ):
            subject = client.getpeercert()["subject"]


def test_names(pki):
    key, chain = texts(pki.server)
    names = certificate_names(ServerTls(key_text=f"{key}\n{on_one_line(chain)}"))
    assert names is not None
    assert names.subject == "CN=server,O=example"


def test_text_that_cannot_be_used(pki):
    key, _ = texts(pki.server)
    _, chain = texts(pki.alice)
    with pytest.raises(
        TlsError, match=r"in ssl\.keystore\.key and ssl\.keystore\.certificate\.chain"
    ) as failure:
        make_context(ServerTls(key_text=f"{key}\n{chain}"))
    assert key.split("\n")[1] not in str(failure.value)
    with pytest.raises(TlsError, match="cannot use the trusted certificates"):
        make_context(ServerTls(pki.server, trust_text="no certificate"))


def test_the_key_is_not_written_to_a_disk():
    with pem.key_file("secret") as path:
        assert Path(path).read_text() == "secret"
        assert path.startswith("/proc/self/fd/")
    assert not Path(path).exists()


def test_a_file_with_the_key_where_files_in_memory_do_not_exist(monkeypatch):
    monkeypatch.delattr("os.memfd_create")
    with pem.key_file("secret") as path:
        assert Path(path).read_text() == "secret"
        assert Path(path).stat().st_mode & 0o077 == 0
    assert not Path(path).exists()
