"""The brokers of the runs: a single one, or three with replicas on each."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.broker import Broker
from compat.lab.cluster import APACHE, ODRADEK, QUICK_SETTINGS, Cluster, Member
from compat.lab.odradek_node import OdradekNode

from odradek.client.cluster import TRANSACTION
from odradek.client.cluster import Cluster as Client
from odradek.spark import markers

TRANSACTIONS = "__transaction_state"
SETTINGS = {**QUICK_SETTINGS, "broker.session.timeout.ms": "5000", "min.insync.replicas": "2"}
"""The session of a node on a busy machine ends less often than with `QUICK_SETTINGS`."""


class Brokers(Protocol):
    """One broker or several, of which one at a time is killed."""

    replicas: int
    bootstrap: str

    def kill(self, role: str, topic: str, transactional_id: str | None) -> str:
        """Kill the broker that has a role, and return what was killed."""
        ...

    def restore(self) -> None:
        """Start the broker that was killed, after another one leads its partitions."""
        ...

    def close(self) -> None: ...


class Single:
    """One broker. What it does not have on disk is lost when it is killed."""

    replicas = 1

    def __init__(self, directory: Path, *, apache: bool) -> None:
        kind = BriefApacheKafka if apache else OdradekNode
        self._broker: Broker = kind(directory=directory).start()
        self.bootstrap = self._broker.bootstrap

    def kill(self, role: str, topic: str, transactional_id: str | None) -> str:
        del role, topic, transactional_id
        self._broker.kill()
        return "the only one"

    def restore(self) -> None:
        self._broker.start()

    def close(self) -> None:
        self._broker.close()


class Replicated:
    """Three nodes, which are brokers and controllers. Topics need two replicas in sync."""

    replicas = 3

    def __init__(self, directory: Path, *, apache: bool) -> None:
        program = APACHE if apache else ODRADEK
        members = {number: Member(program) for number in range(1, self.replicas + 1)}
        self._cluster = Cluster(directory, members, SETTINGS)
        self._cluster.start()
        self._killed: int | None = None
        self.bootstrap = self._cluster.bootstrap

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

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until each broker can be killed without making a partition unavailable."""
        self._cluster.wait_until_in_sync(topics)

    def close(self) -> None:
        self._cluster.close()
