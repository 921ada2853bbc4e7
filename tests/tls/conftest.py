"""Certificates, and a broker with TLS listeners."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.testing import Broker


class Authority:
    """A certificate authority in a directory. `issue` makes PEM files with key and certificate.

    The certificates have what clients in Python 3.13 and later demand (VERIFY_X509_STRICT).
    """

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        self._openssl(
            *("req", "-x509", "-subj", f"/CN={name}", "-days", "2", *self._new_key(self._key)),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", self.certificate),
        )

    def issue(
        self, subject: str, password: str = "", names: str = "IP:127.0.0.1,DNS:localhost"
    ) -> Path:
        name = subject.rpartition("=")[2]
        key, request, made = (self.directory / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.directory / "extensions"
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        self._openssl("req", "-subj", subject, "-out", request, *self._new_key(key))
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-CAcreateserial", "-days", "2", "-out", made, "-extfile", extensions),
        )
        if password:
            locked = self.directory / f"{name}.locked"
            words = ("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", f"pass:{password}")
            self._openssl(*words)
            key = locked
        made.write_bytes(key.read_bytes() + made.read_bytes())
        return made

    def _new_key(self, key: Path) -> tuple[object, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        return (*curve, "-keyout", key)

    def _openssl(self, *words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    """The authority, its certificates for a server and a client, and another authority's client."""
    own = Authority(tmp_path_factory.mktemp("own"))
    other = Authority(tmp_path_factory.mktemp("other"), "other authority")
    return SimpleNamespace(
        ca=str(own.certificate),
        server=str(own.issue("/O=example/CN=server")),
        elsewhere=str(own.issue("/O=example/CN=elsewhere", names="DNS:elsewhere.example")),
        locked=str(own.issue("/O=example/CN=locked", "key-secret")),
        alice=str(own.issue("/O=example/OU=sales/CN=alice")),
        stranger=str(other.issue("/O=example/OU=sales/CN=stranger")),
    )


@pytest.fixture(scope="package")
def broker(pki):
    settings = {
        "listeners": ",".join(
            f"{name}://127.0.0.1:0"
            for name in ("PLAINTEXT", "SSL", "MUTUAL", "ASK", "BOTH", "AWAY", "KEPT", "OLD")
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL,ASK:SSL,BOTH:SASL_SSL,AWAY:SSL,KEPT:SSL,OLD:SSL"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pki.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": pki.ca,
        "listener.name.ssl.ssl.allow.dn.changes": "true",
        "listener.name.old.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "listener.name.away.ssl.keystore.location": pki.elsewhere,
        "listener.name.kept.ssl.keystore.location": pki.elsewhere,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.keystore.location": pki.locked,
        "listener.name.mutual.ssl.key.password": "key-secret",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U",
        "listener.name.ask.ssl.client.auth": "requested",
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'user_alice="alice-secret";'
        ),
    }
    with Broker(topics={"orders": 1}, settings=settings) as running:
        yield running


@pytest.fixture
def ports(broker):
    """The port of each listener."""
    return {each.name: each.port for each in broker.node.server.endpoints}
