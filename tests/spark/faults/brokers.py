"""The brokers of the runs: a single one, or three with replicas on each.

Each broker has a second listener, whose address is that of a proxy (`network`). Only queries whose
network is cut use it. Brokers and the programs of the test connect to each other directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.broker import Broker
from compat.lab.cluster import (
    APACHE,
    ODRADEK,
    QUICK_SETTINGS,
    ApacheMember,
    Cluster,
    Member,
    Node,
    OdradekMember,
)
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import free_port
from tests.spark.faults.network import HOST, Network

from odradek.client.cluster import TRANSACTION
from odradek.client.cluster import Cluster as Client
from odradek.spark import markers

TRANSACTIONS = "__transaction_state"
SETTINGS = {**QUICK_SETTINGS, "broker.session.timeout.ms": "5000", "min.insync.replicas": "2"}
"""The session of a node on a busy machine ends less often than with `QUICK_SETTINGS`."""
LISTENER = "PROXIED"
EVERYTHING = "controller"
"""Spark does not connect to controllers. So a cut with this role is a cut of all brokers."""


class Brokers(Protocol):
    """One broker or several, of which one at a time is killed."""

    replicas: int
    bootstrap: str
    proxied: str
    """The addresses of the proxies."""

    def kill(self, role: str, topic: str, transactional_id: str | None) -> str:
        """Kill the broker that has a role, and return what was killed."""
        ...

    def restore(self) -> None:
        """Start the broker that was killed, after another one leads its partitions."""
        ...

    def cut(self, role: str, topic: str, transactional_id: str | None, way: str) -> str:
        """Cut the network between Spark and the broker that has a role. Return what was cut."""
        ...

    def heal(self) -> None:
        """End the cut."""
        ...

    def close(self) -> None: ...


def listeners(port: int, proxied: int) -> dict[str, str]:
    """Return the settings of a broker whose second listener is behind a proxy."""
    names = ("PLAINTEXT", LISTENER, "CONTROLLER")
    return {
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},{LISTENER}://{HOST}:{proxied}",
        "listener.security.protocol.map": ",".join(f"{each}:PLAINTEXT" for each in names),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def proxied_kind(kind: type[Node], network: Network, targets: dict[int, int]) -> type[Node]:
    """Return a class of nodes with a second listener, whose ports are added to `targets`."""

    class Proxied(kind):  # type: ignore[valid-type, misc]
        def __init__(self, node_id, settings, path, port) -> None:
            target = targets.setdefault(node_id, free_port())
            settings = {**settings, **listeners(port, network.port_to(target))}
            settings["listeners"] += f",{LISTENER}://{HOST}:{target}"
            super().__init__(node_id, settings, path, port)

    return Proxied


class Single:
    """One broker. What it does not have on disk is lost when it is killed."""

    replicas = 1

    def __init__(self, directory: Path, *, apache: bool) -> None:
        kind = BriefApacheKafka if apache else OdradekNode
        port, self._target = free_port(), free_port()
        self._network = Network()
        proxy = self._network.port_to(self._target)
        self._broker: Broker = kind(
            directory=directory,
            port=port,
            settings=listeners(port, proxy),
            listeners=(f"{LISTENER}://{HOST}:{self._target}",),
        ).start()
        self.bootstrap = self._broker.bootstrap
        self.proxied = f"{HOST}:{proxy}"

    def kill(self, role: str, topic: str, transactional_id: str | None) -> str:
        del role, topic, transactional_id
        self._broker.kill()
        return "the only one"

    def restore(self) -> None:
        self._broker.start()

    def cut(self, role: str, topic: str, transactional_id: str | None, way: str) -> str:
        del role, topic, transactional_id
        self._network.cut([self._target], way)
        return "the only one"

    def heal(self) -> None:
        self._network.heal()

    def close(self) -> None:
        self._broker.close()
        self._network.close()


class Replicated:
    """Three nodes, which are brokers and controllers. Topics need two replicas in sync."""

    replicas = 3

    def __init__(self, directory: Path, *, apache: bool) -> None:
        program = APACHE if apache else ODRADEK
        members = {number: Member(program) for number in range(1, self.replicas + 1)}
        self._network = Network()
        self._targets: dict[int, int] = {}
        """The ports of the second listeners, by node."""
        kinds = {
            name: proxied_kind(kind, self._network, self._targets)
            for name, kind in ((ODRADEK, OdradekMember), (APACHE, ApacheMember))
        }
        self._cluster = Cluster(directory, members, SETTINGS, kinds)
        self._cluster.start()
        self._killed: int | None = None
        self.bootstrap = self._cluster.bootstrap
        ports = map(self._network.port_to, self._targets.values())
        self.proxied = ",".join(f"{HOST}:{port}" for port in ports)

    def kill(self, role: str, topic: str, transactional_id: str | None) -> str:
        node_id = self._with_role(role, topic, transactional_id)
        self._cluster.nodes[node_id].kill()
        self._killed = node_id
        return role

    def _with_role(self, role: str, topic: str, transactional_id: str | None) -> int:
        if role == "controller":
            return self._cluster.active_controller()
        if role == "coordinator" and transactional_id is not None:
            with Client(self.bootstrap) as client:
                return client.coordinator_ids([transactional_id], TRANSACTION)[transactional_id]
        leaders = self._cluster.leaders(markers.TOPIC) if role == "markers" else {}
        return leaders.get(0, self._cluster.leaders(topic)[0])

    def restore(self) -> None:
        assert self._killed is not None
        self._cluster.wait_until_fenced(self._killed)
        self._cluster.start(self._killed)
        self._killed = None

    def cut(self, role: str, topic: str, transactional_id: str | None, way: str) -> str:
        if role == EVERYTHING:
            self._network.cut(self._targets.values(), way)
            return "all"
        node_id = self._with_role(role, topic, transactional_id)
        self._network.cut([self._targets[node_id]], way)
        return role

    def heal(self) -> None:
        self._network.heal()

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until each broker can be killed without making a partition unavailable."""
        self._cluster.wait_until_in_sync(topics)

    def close(self) -> None:
        self._cluster.close()
        self._network.close()
