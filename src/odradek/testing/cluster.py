"""The class `Cluster`: several nodes of one cluster in this process, each with its own thread."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.config.load import load
from odradek.core.metadata.image import MetadataImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.testing.network import Links, NodeNetwork
from odradek.testing.node_control import HOST, TIMEOUT_S, BrokerError, NodeControl
from odradek.testing.topics import check_created, create_request
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest, TopicPartitions

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLERS_MAX = 3
REPLICAS_MAX = 3
POLL_SECONDS = 0.005
NOT_YET = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
"""Errors of a node that has not caught up with the controller, or does not reach it yet."""
QUICK_SETTINGS = {
    "controller.quorum.election.timeout.ms": "150",
    "controller.quorum.election.backoff.max.ms": "50",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "odradek.shutdown.timeout.ms": "1000",
}
"""Timeouts that are shorter than the defaults, so that a test sees a failover within seconds."""


class Cluster:
    """A cluster for tests. Call its methods from the test's thread.

    The nodes have the ids 1, 2, 3 and so on. The first three are brokers and controllers, the
    others are only brokers. `nodes` has a `NodeControl` for each, which injects faults into the
    requests of one node.

    `topics` has the number of partitions by name. The `with` statement creates these topics, with
    three replicas. `settings` are settings of all nodes, as in server.properties. `data` is a
    directory that is kept. Without `data`, the cluster uses a temporary directory, which `close`
    removes.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        data: str | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError("a cluster has at least one node")
        self._topics = dict(topics or {})
        self._settings = {k: str(v) for k, v in (settings or {}).items()}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="odradek-")
            data = self._temporary.name
        self.data = data
        self._links = Links()
        self._networks: dict[int, NodeNetwork] = {}
        self.nodes: dict[int, NodeControl] = {}
        for node_id in range(1, nodes + 1):
            ports = (0, 0) if node_id <= CONTROLLERS_MAX else (0,)
            network = self._networks[node_id] = self._links.network(node_id, ports)
            name, port = f"node {node_id}", network.ports[0]
            self.nodes[node_id] = NodeControl(name, network, port, CLUSTER_ID)

    # -- life -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
            self.create_topics(self._topics)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, *node_ids: int) -> None:
        """Start these nodes, or all, and wait until they serve requests.

        A node can start only if a majority of the controllers runs or starts. When this method
        returns, all running nodes know that the started ones serve requests.

        Raises:
            BrokerError: a node is already running, or cannot start.
        """
        node_ids = node_ids or tuple(self.nodes)
        started = [self._node(each) for each in node_ids]
        configurations = [self._configuration(each) for each in node_ids]
        for node, configuration in zip(started, configurations, strict=True):
            node._begin(configuration)
        for node in started:
            node._finish()
        self._until(lambda: self._know_each_other(node_ids), "the nodes do not find each other")

    def _know_each_other(self, node_ids: Iterable[int]) -> bool:
        """Return whether all running nodes know that these nodes serve requests."""
        epochs = {each: self.nodes[each].node.broker_epoch for each in node_ids}
        for image in self._images():
            for node_id, epoch in epochs.items():
                known = image.cluster.brokers.get(node_id)
                if known is None or known.epoch != epoch or known.fenced:
                    return False
        return True

    def _configuration(self, node_id: int) -> BrokerConfig:
        controllers = {
            each: network.ports[1]
            for each, network in self._networks.items()
            if len(network.ports) > 1
        }
        is_controller = node_id in controllers
        listeners = [f"PLAINTEXT://{HOST}:{self.nodes[node_id].port}"]
        if is_controller:
            listeners.append(f"CONTROLLER://{HOST}:{controllers[node_id]}")
        replicas = self._replicas
        overrides = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each}@{HOST}:{port}" for each, port in controllers.items()
            ),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
            **QUICK_SETTINGS,
            **self._settings,
        }
        try:
            loaded = load(None, overrides, str(Path(self.data) / str(node_id)))
        except ConfigurationError as error:
            raise BrokerError(f"node {node_id} does not start: {error}") from error
        for text in loaded.warnings:
            warnings.warn(text, stacklevel=4)
        return loaded.config

    @property
    def _replicas(self) -> int:
        return min(len(self.nodes), REPLICAS_MAX)

    def stop(self, node_id: int) -> None:
        """Stop a node cleanly: its leaders move to other nodes first. Keep its data."""
        self._node(node_id).stop()

    def kill(self, node_id: int) -> None:
        """End a node at once, as `kill -9` does.

        The other nodes notice it after `broker.session.timeout.ms`, which is two seconds here.
        """
        self._node(node_id).kill()

    def restart(self, node_id: int) -> None:
        """Stop a node if it runs, and start it with the same data and the same ports.

        Faults that are injected into its requests are removed.
        """
        self.stop(node_id)
        self.nodes[node_id].heal()
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """Pause a node. Connections stay open, but the node does nothing."""
        self._node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Resume a paused node."""
        self._node(node_id).resume()

    def close(self) -> None:
        """End all nodes, and remove the data unless the argument `data` was given.

        The nodes are stopped cleanly only if the data is kept.
        """
        self.heal()
        try:
            if self._temporary is None:
                self._stop_all()
            else:
                for node in self.nodes.values():
                    node.kill()
        finally:
            for network in self._networks.values():
                network.release()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _stop_all(self) -> None:
        """Stop all nodes. Those that are only brokers stop first, because they need a quorum."""
        brokers = [node for each, node in self.nodes.items() if each > CONTROLLERS_MAX]
        controllers = [node for each, node in self.nodes.items() if each <= CONTROLLERS_MAX]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            for group in (brokers, controllers):
                list(threads.map(NodeControl.stop, group))

    # -- facts ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses of all nodes, also of those that do not run."""
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def controller(self) -> int:
        """Return the id of the active controller. Wait for an election if there is none.

        Raises:
            BrokerError: no controller becomes active.
        """
        self._until(lambda: self._active() is not None, "no controller becomes active")
        found = self._active()
        return self.controller() if found is None else found

    def _active(self) -> int | None:
        """Return the id of the active controller with the newest epoch."""
        epochs = {
            each: self.nodes[each].node.controller.epoch
            for each in self._awake()
            if each <= CONTROLLERS_MAX and self.nodes[each].node.controller.is_active
        }
        return max(epochs, key=epochs.__getitem__, default=None)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the node that leads a partition. Wait until it has a leader.

        All running nodes that reach the controller know this leader.

        Raises:
            BrokerError: there is no such partition, or it gets no leader.
        """
        leader = -1

        def is_led() -> bool:
            nonlocal leader
            leader = self._leader(topic, partition)
            return leader >= 0

        self._until(is_led, f"{topic} has no leader")
        return leader

    def _leader(self, topic: str, partition: int) -> int:
        """Return the leader on which the nodes agree; -1 if there is none."""
        leaders = set()
        for image in self._images():
            found = image.topics.by_name.get(topic)
            each = None if found is None else found.partitions.get(partition)
            leaders.add(-1 if each is None else each.leader)
        return leaders.pop() if len(leaders) == 1 else -1

    def replicas(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Return the ids of the nodes that have a replica of a partition, the preferred one first.

        Raises:
            BrokerError: there is no such partition.
        """
        return tuple(self._partition(topic, partition).replicas)

    def in_sync_replicas(self, topic: str, partition: int = 0) -> frozenset[int]:
        """Return the ids of the nodes in the ISR of a partition.

        Raises:
            BrokerError: there is no such partition.
        """
        return frozenset(self._partition(topic, partition).isr)

    def wait_until_in_sync(self) -> None:
        """Wait until every partition has a leader, and all its replicas are in sync.

        Raises:
            BrokerError: it takes too long, for example because a node does not run.
        """
        self._until(self._is_in_sync, "not all replicas are in sync")

    def _is_in_sync(self) -> bool:
        return all(
            each.leader >= 0 and set(each.isr) == set(each.replicas)
            for image in self._images()
            for topic in image.topics.by_name.values()
            for each in topic.partitions.values()
        )

    # -- topics -----------------------------------------------------------------------------

    def create_topics(
        self, topics: Mapping[str, int], settings: Mapping[str, object] | None = None
    ) -> None:
        """Create topics with the given numbers of partitions, all with the same settings.

        Each partition has three replicas, or fewer if the cluster has fewer nodes. When this method
        returns, all running nodes serve the topics.

        Raises:
            BrokerError: a topic cannot be created.
        """
        if not topics:
            return
        check_created(self._decide(create_request(topics, settings, self._replicas)))
        self._until(lambda: all(map(self._is_served, topics)), "the topics are not served")

    def _is_served(self, topic: str) -> bool:
        """Return whether all running nodes know a topic, and have opened their replicas."""
        for node_id in self._awake():
            broker = self.nodes[node_id].node.broker
            found = broker.metadata.image.topics.by_name.get(topic)
            if found is None:
                return False
            opened = broker.replicas.by_name.get(topic, {})
            for index, each in found.partitions.items():
                if node_id in each.replicas and index not in opened:
                    return False
        return True

    # -- faults -----------------------------------------------------------------------------

    def partition(self, node_id: int, *others: int) -> None:
        """Cut the network between a node and each of the others.

        Clients still reach all nodes. Packets are dropped: the nodes notice only that nothing
        arrives.
        """
        for each in (node_id, *others):
            self._node(each)
        for each in others:
            self._links.cut(node_id, each)

    def heal(self, node_id: int | None = None, *others: int) -> None:
        """Heal the network between a node and each of the others; without arguments, all of it."""
        if node_id is None:
            self._links.heal_all()
        for each in others:
            assert node_id is not None
            self._links.heal(node_id, each)

    def fence(self, node_id: int) -> None:
        """Let the controller fence a node, until `unfence`.

        The node runs on, but it leads no partition that has another replica, and clients are not
        sent to it.

        Raises:
            BrokerError: the node does not run, or is paused.
        """
        self._set_fenced(node_id, True)

    def unfence(self, node_id: int) -> None:
        """Let the controller unfence a node.

        Raises:
            BrokerError: the node does not run, or is paused.
        """
        self._set_fenced(node_id, False)

    def _set_fenced(self, node_id: int, is_fenced: bool) -> None:
        control = self._node(node_id)
        problem = f"node {node_id} is not {'' if is_fenced else 'un'}fenced"

        def is_done() -> bool:
            try:
                control._run(control.node.set_fenced(is_fenced))
            except ApiError as error:
                if error.code not in NOT_YET:
                    raise
                return False
            return True

        self._until(is_done, problem)

        def is_known() -> bool:
            return all(
                image.cluster.brokers[node_id].fenced is is_fenced for image in self._images()
            )

        self._until(is_known, problem)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node the leader of a partition, and its preferred leader.

        Raises:
            BrokerError: the node has no replica that is in sync, or there is no such partition.
        """
        self._node(node_id)
        replicas = self.replicas(topic, partition)
        if node_id not in replicas:
            raise BrokerError(
                f"node {node_id} has no replica of {topic}-{partition}; nodes "
                f"{', '.join(map(str, replicas))} have one"
            )
        order = [node_id, *(each for each in replicas if each != node_id)]
        if tuple(order) != replicas:
            wanted = ReassignablePartition(partition_index=partition, replicas=order)
            topics = [ReassignableTopic(name=topic, partitions=[wanted])]
            response = self._decide(AlterPartitionReassignmentsRequest(topics=topics))
            (result,) = response.responses[0].partitions
            self._check(result.error_code, result.error_message, f"{topic}-{partition}")
        election = TopicPartitions(topic=topic, partitions=[partition])
        response = self._decide(ElectLeadersRequest(topic_partitions=[election]))
        result = response.replica_election_results[0].partition_result[0]
        if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
            self._check(result.error_code, result.error_message, f"{topic}-{partition}")

        def leads() -> bool:
            found = (image.topics.by_name.get(topic) for image in self._images())
            return all(
                each is not None and each.partitions[partition].leader == node_id for each in found
            )

        self._until(leads, f"node {node_id} does not lead {topic}-{partition}")

    @staticmethod
    def _check(code: int, message: str | None, subject: str) -> None:
        if code:
            raise BrokerError(f"{subject}: {message or ErrorCode(code).name}")  # type: ignore[call-arg]

    # -- within -----------------------------------------------------------------------------

    def _node(self, node_id: int) -> NodeControl:
        node = self.nodes.get(node_id)
        if node is None:
            raise BrokerError(
                f"there is no node {node_id}: the nodes are {', '.join(self._names())}"
            )
        return node

    def _names(self) -> Iterable[str]:
        return map(str, self.nodes)

    def _awake(self) -> list[int]:
        """Return the ids of the nodes that run and are not paused."""
        return [each for each, node in self.nodes.items() if node.is_running and not node.is_paused]

    def _images(self) -> list[MetadataImage]:
        """Return the metadata of each node that runs, is not paused, and is not cut off."""
        active = self._active()
        return [
            self.nodes[each].node.broker.metadata.image
            for each in self._awake()
            if active is None or not self._links.is_cut(each, active)
        ]

    def _find(self, topic: str, partition: int) -> Any:
        """Return the newest state of a partition; None if it does not exist."""
        newest = max(self._images(), key=lambda image: image.offset, default=None)
        found = None if newest is None else newest.topics.by_name.get(topic)
        return None if found is None else found.partitions.get(partition)

    def _partition(self, topic: str, partition: int) -> Any:
        found = self._find(topic, partition)
        if found is None:
            raise BrokerError(f"there is no partition {topic}-{partition}")
        return found

    def _decide(self, request: Any) -> Any:
        """Return the active controller's response to a request."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            control = self.nodes[self.controller()]
            try:
                return control._run(control.node.controller.submit(None, request))
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER or time.monotonic() > deadline:
                    raise BrokerError(error.message) from error

    @staticmethod
    def _until(holds: Callable[[], bool], problem: str) -> None:
        """Wait until a condition holds.

        Raises:
            BrokerError: it does not hold within `TIMEOUT_S`.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                raise BrokerError(f"{problem} within {TIMEOUT_S:g} s")
            time.sleep(POLL_SECONDS)
