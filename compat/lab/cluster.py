"""Runs a cluster of several nodes on loopback, each as a process.

The nodes are nodes of Odradek, of Apache Kafka, or of both. The controllers are static voters
(`controller.quorum.voters`). All nodes have the same settings.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from compat.lab.apache_kafka import LOGGING, BriefApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import free_port
from compat.lab.wire_client import WireClient
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_cluster_response import DescribeClusterResponse
from odradek.wire.generated.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.describe_quorum_response import DescribeQuorumResponse
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.generated.elect_leaders_response import ElectLeadersResponse
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from odradek.wire.generated.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)
from odradek.wire.generated.metadata_response import MetadataResponse

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
ODRADEK, APACHE = "odradek", "apache"
BOTH_ROLES = "broker,controller"
MIXED_RELEASE = "4.3-IV0"
"""The features of a cluster with nodes of Apache Kafka 4.3."""
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
SYNC_SECONDS_MAX = 180.0

ResultT = TypeVar("ResultT")


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
    release = ""
    """The release with whose features the cluster is formatted; empty for the node's own."""
    credentials: Sequence[str] = ()
    """The credentials of SCRAM with which the cluster is formatted, as for `--add-scram`."""

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

    @property
    def _options(self) -> list[str]:
        release = ["--release-version", self.release] if self.release else []
        return [*release, *(word for each in self.credentials for word in ("--add-scram", each))]

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
        words += self._options
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"{self.name} was not formatted: {done.stderr}")


class ApacheMember(_Configured, BriefApacheKafka):
    """A node of Apache Kafka, without the features that Odradek's brokers do not support."""

    features: Sequence[str] = ("streams.version=0",)
    """The levels with which the cluster is formatted, where they differ from the defaults."""

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
        words += [word for each in self.features for word in ("--feature", each)]
        words += self._options
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"{self.name} was not formatted: {done.stdout}{done.stderr}")


Node = OdradekMember | ApacheMember


class Cluster:
    """The nodes of a cluster by id, running or not.

    `members` has the program and the roles of each node. `settings` are the settings of every
    node; by default `QUICK_SETTINGS`. `kinds` has the classes of the nodes by program.
    """

    def __init__(
        self,
        directory: Path,
        members: Mapping[int, Member],
        settings: Mapping[str, str] = QUICK_SETTINGS,
        kinds: Mapping[str, type[Node]] | None = None,
    ) -> None:
        self.members = dict(members)
        self._kinds = kinds or {ODRADEK: OdradekMember, APACHE: ApacheMember}
        self._directory = directory
        ports = {each: free_port() for each in members}
        self._controller_ports = {
            each: free_port() for each, member in members.items() if member.is_controller
        }
        self._settings = dict(settings)
        mixes = any(each.program == APACHE for each in members.values())
        self._release = MIXED_RELEASE if mixes else ""
        self.nodes: dict[int, Node] = {each: self._new(each, port) for each, port in ports.items()}

    def _new(self, node_id: int, port: int) -> Node:
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
            **self._settings,
        }
        serving = port if member.is_broker else self._controller_ports[node_id]
        path = self._directory / str(node_id)
        node = self._kinds[member.program](node_id, settings, path, serving)
        node.release = self._release
        return node

    @property
    def brokers(self) -> list[Node]:
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

    def replace(self, node_id: int, program: str) -> None:
        """Let another program run a node that is stopped, with its configuration, ports and data."""
        assert not self.nodes[node_id].alive(), "stop the node first"
        self.members[node_id] = replace(self.members[node_id], program=program)
        self.nodes[node_id] = self._new(node_id, self.nodes[node_id].port)

    def last_words(self) -> str:
        """Return the end of each node's output."""
        return "\n".join(f"{each.name}: {each.last_words()}" for each in self.nodes.values())

    def metadata(self, *topics: str) -> MetadataResponse:
        """Return the metadata of topics as the first running broker has it.

        Raises:
            OSError: no broker responds.
        """
        return self._ask(lambda client: client.metadata(*topics))

    def _ask(self, request: Callable[[WireClient], ResultT]) -> ResultT:
        problem: OSError | None = None
        for node in self.brokers:
            if node.alive():
                try:
                    with WireClient(node.port, timeout=10.0) as client:
                        return request(client)
                except OSError as error:
                    problem = error
        raise problem or ConnectionError("no broker runs")

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Move partitions to these replicas, and wait until they are moved.

        Raises:
            BrokerFailed: a partition is refused, or not moved in `SYNC_SECONDS_MAX`.
        """
        wanted = [
            ReassignablePartition(partition_index=index, replicas=list(ids))
            for index, ids in replicas.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=wanted)]
        )
        answer = self._ask(
            lambda c: c.call(
                "AlterPartitionReassignments", 0, request, AlterPartitionReassignmentsResponse
            )
        )
        refused = [each.error_message for t in answer.responses for each in t.partitions]
        if answer.error_code or any(refused):
            raise BrokerFailed(f"{answer.error_message}; {refused}")
        self._until(self._moving, "moving")

    def _moving(self) -> list[str]:
        answer = self._ask(
            lambda client: client.call(
                "ListPartitionReassignments",
                0,
                ListPartitionReassignmentsRequest(),
                ListPartitionReassignmentsResponse,
            )
        )
        return [f"{topic.name}: {topic.partitions}" for topic in answer.topics]

    def elect_preferred_leaders(self, topic: str, partitions: Sequence[int]) -> None:
        """Make the first replica of each of these partitions its leader, and wait until it leads.

        Raises:
            BrokerFailed: a partition has no such election, or it takes more than `SYNC_SECONDS_MAX`.
        """
        wanted = [TopicPartitions(topic=topic, partitions=list(partitions))]
        request = ElectLeadersRequest(topic_partitions=wanted)
        answer = self._ask(lambda c: c.call("ElectLeaders", 2, request, ElectLeadersResponse))
        not_needed = 84  # ELECTION_NOT_NEEDED: the first replica is the leader
        for each in answer.replica_election_results:
            for result in each.partition_result:
                if result.error_code not in (0, not_needed):
                    raise BrokerFailed(f"{topic}-{result.partition_id}: {result.error_message}")
        self._until(lambda: self._not_led(topic, partitions), "led by another replica")

    def _not_led(self, topic: str, partitions: Sequence[int]) -> list[str]:
        """Return the partitions whose leader is not the first replica, as a broker knows it."""
        return [
            f"{topic}-{each.partition_index}: {each.leader_id}"
            for each in self.metadata(topic).topics[0].partitions
            if each.partition_index in partitions and each.leader_id != each.replica_nodes[0]
        ]

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        answer = self.metadata(topic)
        return {each.partition_index: each.leader_id for each in answer.topics[0].partitions}

    def active_controller(self) -> int:
        """Return the id of the node that leads the metadata quorum.

        Raises:
            OSError: no broker responds.
        """
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
        request = DescribeQuorumRequest(topics=[topic])
        answer = self._ask(lambda c: c.call("DescribeQuorum", 1, request, DescribeQuorumResponse))
        return answer.topics[0].partitions[0].leader_id

    def wait_until_fenced(self, node_id: int) -> None:
        """Wait until a broker that has stopped is fenced.

        Raises:
            BrokerFailed: it takes more than `SYNC_SECONDS_MAX`.
        """
        self._until(lambda: [str(each) for each in self._ask(broker_ids) if each == node_id], "up")

    def wait_until_not_fenced(self, *node_ids: int) -> None:
        """Wait until brokers that run are not fenced. On a busy machine a heartbeat may come late.

        Raises:
            BrokerFailed: it takes more than `SYNC_SECONDS_MAX`.
        """
        self._until(
            lambda: [str(each) for each in sorted({*node_ids} - {*self._ask(broker_ids)})],
            "fenced",
        )

    def wait_until_in_sync(self, topics: Iterable[str]) -> None:
        """Wait until all replicas of these topics are in sync and every partition has a leader.

        Raises:
            BrokerFailed: it takes more than `SYNC_SECONDS_MAX`.
        """
        names = list(topics)
        self._until(lambda: self._not_in_sync(names), "not in sync")

    def _until(self, find: Callable[[], list[str]], what: str) -> None:
        """Wait until `find` returns an empty list."""
        deadline = time.monotonic() + SYNC_SECONDS_MAX
        while True:
            try:
                found = find()
            except OSError as error:
                found = [str(error)]
            if not found:
                return
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{what}: {found[:5]}; {self.last_words()}")
            time.sleep(0.1)

    def _not_in_sync(self, names: list[str]) -> list[str]:
        answer = self.metadata(*names)
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
