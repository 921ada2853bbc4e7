"""The migration of `migration_loop` with TLS, SASL and ACLs, as most clusters have them.

The clients under load log in with SCRAM over TLS, and have only the rights that they need. Brokers
know each other by their certificates. Controllers log in with PLAIN over TLS. The listener without
TLS and SASL, whose users may do everything, is that of the test itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.cluster import APACHE, ODRADEK, QUICK_SETTINGS, Cluster, Member, Node, OdradekMember
from compat.lab.toolchain import free_port
from tests.crash.migration_loop import DefaultApacheMember, MigrationLoop
from tests.crash.rolling_loop import NODE_IDS
from tests.tls.conftest import Authority

from odradek.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

USER, WORD = "load", "load-secret"
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
        self._keys = {each: self._authority.issue(f"/CN=node-{each}") for each in NODE_IDS}
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
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.keystore.type": "PEM",
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
    def clients(self) -> dict[str, str]:
        """See `FaultLoop`."""
        return {
            "bootstrap.servers": self._secured.users_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": WORD,
            "ssl.ca.location": str(self._secured.trusted),
        }

    @property
    def java_clients(self) -> dict[str, str]:
        """See `RollingLoop`."""
        return {
            "bootstrap.servers": self._secured.users_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
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
