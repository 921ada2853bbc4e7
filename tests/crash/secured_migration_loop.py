"""The migration of `migration_loop` with TLS, SASL and ACLs, as most clusters have them.

The clients under load log in with SCRAM over TLS, and have only the rights that they need. Brokers
know each other by their certificates. Controllers log in with PLAIN over TLS. Keys and certificates
of the nodes are in JKS files. The listener without TLS and SASL, whose users may do everything, is
that of the test itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.cluster import APACHE, ODRADEK, QUICK_SETTINGS, Cluster, Member, Node, OdradekMember
from compat.lab.toolchain import free_port, require
from tests.crash.migration_loop import DefaultApacheMember, MigrationLoop
from tests.crash.rolling_loop import NODE_IDS
from tests.tls.conftest import Authority

from odradek.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

USER, WORD = "load", "load-secret"
STORE_WORD, KEY_WORD = "store-secret", "key-secret"
MECHANISM = "SCRAM-SHA-512"
CREDENTIALS = (f"{MECHANISM}=[name={USER},password={WORD}]",)
RIGHTS = (
    ("read,write", "topic:promised"),
    ("read,write", "topic:steady*"),
    ("read", "group:goes-on"),
    ("read", "group:steady*"),
    ("write", "transactional-id:steady"),
)
_PLAIN = (
    f'{PLAIN_LOGIN_MODULE} required username="node" password="node-secret" user_node="node-secret";'
)


def run(*words: object) -> None:
    """Run a program."""
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def keytool(*words: object) -> None:
    """Run Java's keytool."""
    run(Path(require("java")).with_name("keytool"), *words)


class SecuredOdradekMember(OdradekMember):
    """A node of Odradek, formatted with the user of the load."""

    credentials = CREDENTIALS


class SecuredApacheMember(DefaultApacheMember):
    """A node of Apache Kafka, formatted with the user of the load."""

    credentials = CREDENTIALS


class SecuredCluster(Cluster):
    """Each node has a listener for users and one for brokers, besides those of `Cluster`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._authority = Authority(directory)
        self.trusted = self._authority.certificate
        self._ports = {each: (free_port(), free_port()) for each in NODE_IDS}
        self._keys = {each: self._key_store(f"node-{each}") for each in NODE_IDS}
        self._trust = directory / "trust.jks"
        words = ("-importcert", "-noprompt", "-alias", "ca", "-file", self.trusted)
        keytool(*words, "-keystore", self._trust, "-storetype", "JKS", "-storepass", STORE_WORD)
        kinds = {APACHE: SecuredApacheMember, ODRADEK: SecuredOdradekMember}
        members = dict.fromkeys(NODE_IDS, Member(APACHE))
        super().__init__(directory, members, {**QUICK_SETTINGS, **self._common()}, kinds)

    @property
    def users_bootstrap(self) -> str:
        """The addresses of the listeners for users."""
        return ",".join(f"127.0.0.1:{users}" for users, _ in self._ports.values())

    def _common(self) -> dict[str, str]:
        names = ("ANONYMOUS", "node", *(f"CN=node-{each}" for each in NODE_IDS))
        return {
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,USERS:SASL_SSL,BROKERS:SSL,CONTROLLER:SASL_SSL"
            ),
            "inter.broker.listener.name": "BROKERS",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in names),
            "ssl.truststore.location": str(self._trust),
            "ssl.truststore.password": STORE_WORD,
            "ssl.keystore.password": STORE_WORD,
            "ssl.key.password": KEY_WORD,
            "listener.name.brokers.ssl.client.auth": "required",
            "listener.name.users.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.users.{MECHANISM.lower()}.sasl.jaas.config": (
                f"{SCRAM_LOGIN_MODULE} required;"
            ),
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": _PLAIN,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "connections.max.reauth.ms": "10000",
        }

    def _key_store(self, name: str) -> Path:
        made = self._authority.issue(f"/CN={name}")
        middle, store = made.with_suffix(".p12"), made.with_suffix(".jks")
        words = ("openssl", "pkcs12", "-export", "-in", made, "-certfile", self.trusted)
        run(*words, "-out", middle, "-passout", f"pass:{STORE_WORD}")
        source = ("-srckeystore", middle, "-srcstoretype", "PKCS12", "-srcstorepass", STORE_WORD)
        target = ("-destkeystore", store, "-deststoretype", "JKS", "-deststorepass", STORE_WORD)
        keytool("-importkeystore", *source, *target, "-srcalias", "1", "-destkeypass", KEY_WORD)
        return store

    def _new(self, node_id: int, port: int) -> Node:
        node = super()._new(node_id, port)
        users, brokers = self._ports[node_id]
        more = f",USERS://127.0.0.1:{users},BROKERS://127.0.0.1:{brokers}"
        node.settings["listeners"] += more
        node.settings["ssl.keystore.location"] = str(self._keys[node_id])
        return node


class SecuredMigrationLoop(MigrationLoop):
    """As `MigrationLoop`."""

    def __init__(
        self, directory: Path, seed: int, java: Sequence[str], features_tool: Sequence[str]
    ) -> None:
        self._secured = SecuredCluster(directory)
        super().__init__(directory, seed, java, features_tool, self._secured)

    @property
    def _login(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._secured.users_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
        }

    @property
    def clients(self) -> dict[str, str]:
        """See `FaultLoop`."""
        return {
            **self._login,
            "sasl.username": USER,
            "sasl.password": WORD,
            "ssl.ca.location": str(self._secured.trusted),
        }

    @property
    def java_clients(self) -> dict[str, str]:
        """See `RollingLoop`."""
        return {
            **self._login,
            "sasl.jaas.config": f'{SCRAM_LOGIN_MODULE} required username="{USER}" password="{WORD}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._secured.trusted),
        }

    def _create_topic(self) -> None:
        for rights, resource in RIGHTS:
            words = [sys.executable, "-m", "odradek", "-b", self.cluster.bootstrap, "acl", "add"]
            done = subprocess.run(
                [*words, USER, rights, resource], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        super()._create_topic()
