"""Runs a cluster of several nodes on loopback, each as a process.

The nodes are nodes of Odradek, of Apache Kafka, or of both. The controllers are static voters
(`controller.quorum.voters`). All nodes have the same settings.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.lab.apache_kafka import LOGGING, BriefApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import free_port
from compat.lab.wire_client import WireClient
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_cluster_response import DescribeClusterResponse
from odradek.wire.generated.metadata_response import MetadataResponse

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
ODRADEK, APACHE = "odradek", "apache"
BOTH_ROLES = "broker,controller"
QUICK_SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Timeouts that are shorter than the defaults, so that many failures fit into a test."""
SYNC_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Member:
    """A node of a cluster: the program that runs it, and its `process.roles`."""

    program: str = ODRADEK
    roles: str = BOTH_ROLES

    @property
    def is_broker(self) -> bool:
        """Whether clients can connect to the node."""
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether the node is a voter."""
        return "controller" in self.roles


class _Configured(Broker):
    """A node with a configuration file, whose directory is formatted for the cluster."""

    node_id: int
    is_broker: bool

    @property
    def properties(self) -> Path:
        """The path of the configuration file."""
        return self.directory / "server.properties"

    def prepare(self) -> None:
        """Write the configuration, and format the data directory before the first start."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = {**self.settings, "log.dirs": str(self.data)}
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.properties.write_text(lines, encoding="utf-8")
        if not (self.data / "meta.properties").exists():
            self._format()

    def _format(self) -> None:
        raise NotImplementedError

    def _serves(self) -> bool:
        """Whether the node accepts connections, and is an unfenced broker if it is a broker."""
        try:
            with WireClient(self.port, timeout=5.0) as client:
                return not self.is_broker or self.node_id in broker_ids(client)
        except OSError:
            return False


class OdradekMember(_Configured, OdradekNode):
    """A node of Odradek, run by `odradek serve --config FILE`."""

    def __init__(self, node_id: int, settings: Mapping[str, str], path: Path, port: int) -> None:
        self.node_id = node_id
        self.is_broker = "broker" in settings["process.roles"]
        super().__init__(settings=settings, directory=path, port=port)
        self.name = f"Odradek {node_id}"

    def command(self) -> Sequence[str]:
        """Return the command."""
        return [str(self.program), "serve", "--config", str(self.properties)]

    def _format(self) -> None:
        words = [str(self.program), "format", "-t", CLUSTER_ID, "--config", str(self.properties)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"{self.name} was not formatted: {done.stderr}")


class ApacheMember(_Configured, BriefApacheKafka):
    """A node of Apache Kafka."""

    def __init__(self, node_id: int, settings: Mapping[str, str], path: Path, port: int) -> None:
        self.node_id = node_id
        self.is_broker = "broker" in settings["process.roles"]
        super().__init__(settings=settings, directory=path, port=port)
        self.name = f"{self.name} {node_id}"

    def prepare(self) -> None:
        """Write also the configuration of the logging."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        super().prepare()

    def _format(self) -> None:
        tool = self._java("kafka.tools.StorageTool", ("-Xmx128m", "-XX:TieredStopAtLevel=1"))
        words = [*tool, "format", "-t", CLUSTER_ID, "-c", str(self.properties)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"{self.name} was not formatted: {done.stdout}{done.stderr}")


class Cluster:
    """The nodes of a cluster by id, running or not.

    `members` has the program and the roles of each node. `settings` are the settings of every
    node. They override `QUICK_SETTINGS`.
    """

    def __init__(
        self,
        directory: Path,
        members: Mapping[int, Member],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.members = dict(members)
        self._directory = directory
        ports = {each: free_port() for each in members}
        self._controller_ports = {
            each: free_port() for each, member in members.items() if member.is_controller
        }
        self._settings = dict(settings or {})
        self.nodes: dict[int, OdradekMember | ApacheMember] = {
            each: self._new(each, port) for each, port in ports.items()
        }

    def _new(self, node_id: int, port: int) -> OdradekMember | ApacheMember:
        member = self.members[node_id]
        listeners = []
        if member.is_broker:
            listeners.append(f"PLAINTEXT://127.0.0.1:{port}")
        if member.is_controller:
            listeners.append(f"CONTROLLER://127.0.0.1:{self._controller_ports[node_id]}")
        voters = ",".join(
            f"{each}@127.0.0.1:{port}" for each, port in self._controller_ports.items()
        )
        brokers = sum(each.is_broker for each in self.members.values())
        factor, minimum = str(min(3, brokers)), str(min(2, brokers))
        settings = {
            "process.roles": member.roles,
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": minimum,
            **QUICK_SETTINGS,
            **self._settings,
        }
        kind = OdradekMember if member.program == ODRADEK else ApacheMember
        serving = port if member.is_broker else self._controller_ports[node_id]
        return kind(node_id, settings, self._directory / str(node_id), serving)

    @property
    def brokers(self) -> list[OdradekMember | ApacheMember]:
        """The brokers, running or not."""
        return [each for each in self.nodes.values() if each.is_broker]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, also of those that do not run."""
        return ",".join(each.bootstrap for each in self.brokers)

    def start(self, *node_ids: int) -> None:
        """Start these nodes, or all, and wait until they serve requests.

        Raises:
            BrokerFailed: a node ended, or is not ready in time.
        """
        started = [self.nodes[each] for each in node_ids or self.nodes]
        for node in started:
            node.launch()
        for node in started:
            node.wait_until_ready()

    def close(self) -> None:
        """Stop all nodes. The brokers go first, because their controlled shutdown needs a quorum."""
        for node in self.nodes.values():
            node.resume()
        for wanted in (True, False):
            running = [n for n in self.nodes.values() if n.is_broker == wanted and n.alive()]
            for node in running:
                node.process.send_signal(signal.SIGTERM)
            for node in running:
                node.stop(patience=10.0)

    def last_words(self) -> str:
        """Return the end of each node's output."""
        return "\n".join(f"{each.name}: {each.last_words()}" for each in self.nodes.values())

    def metadata(self, *topics: str) -> MetadataResponse:
        """Return the metadata of topics as the first running broker has it.

        Raises:
            OSError: no broker responds.
        """
        problem: OSError | None = None
        for node in self.brokers:
            if node.alive():
                try:
                    with WireClient(node.port, timeout=5.0) as client:
                        return client.metadata(*topics)
                except OSError as error:
                    problem = error
        raise problem or ConnectionError("no broker runs")

    def wait_until_in_sync(self, topics: Iterable[str]) -> None:
        """Wait until all replicas of these topics are in sync and every partition has a leader.

        Raises:
            BrokerFailed: it takes more than `SYNC_SECONDS_MAX`.
        """
        names = list(topics)
        deadline = time.monotonic() + SYNC_SECONDS_MAX
        while True:
            late = self._not_in_sync(names)
            if not late:
                return
            if time.monotonic() > deadline:
                raise BrokerFailed(f"not in sync: {late[:5]}; {self.last_words()}")
            time.sleep(0.1)

    def _not_in_sync(self, names: list[str]) -> list[str]:
        try:
            answer = self.metadata(*names)
        except OSError as error:
            return [str(error)]
        found = [
            f"{topic.name}-{each.partition_index}: leader {each.leader_id}, ISR {each.isr_nodes}"
            for topic in answer.topics
            for each in topic.partitions
            if each.leader_id < 0 or len(each.isr_nodes) < len(each.replica_nodes)
        ]
        return found or [str(each.name) for each in answer.topics if each.error_code]


def broker_ids(client: WireClient) -> list[int]:
    """Return the ids of the brokers that are registered and not fenced."""
    request = DescribeClusterRequest()
    answer = client.call("DescribeCluster", 0, request, DescribeClusterResponse)
    return [each.broker_id for each in answer.brokers]
