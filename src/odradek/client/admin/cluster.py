"""Describes the cluster: brokers, features, quorum, API versions, log directories, producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.errors import ClientError, broker_error, check
from odradek.client.fan_out import fan_out, to_leaders
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.add_raft_voter_request import AddRaftVoterRequest, Listener
from odradek.wire.generated.add_raft_voter_response import AddRaftVoterResponse
from odradek.wire.generated.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.generated.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_cluster_response import DescribeClusterResponse
from odradek.wire.generated.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.wire.generated.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from odradek.wire.generated.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from odradek.wire.generated.describe_producers_response import (
    DescribeProducersResponse,
    ProducerState,
)
from odradek.wire.generated.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from odradek.wire.generated.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from odradek.wire.generated.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)
from odradek.wire.generated.remove_raft_voter_request import RemoveRaftVoterRequest
from odradek.wire.generated.remove_raft_voter_response import RemoveRaftVoterResponse
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest
from odradek.wire.generated.unregister_broker_response import UnregisterBrokerResponse
from odradek.wire.generated.unregister_controller_request import UnregisterControllerRequest
from odradek.wire.generated.unregister_controller_response import UnregisterControllerResponse


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker of the cluster. A `fenced` broker is registered, but does not serve clients."""

    id: int
    address: Address
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster. `controller_id` is a broker that accepts requests for the controller."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]

    @property
    def unfenced(self) -> list[BrokerInfo]:
        """The brokers that serve clients."""
        return [each for each in self.brokers if not each.fenced]


def describe_cluster(cluster: Cluster) -> ClusterInfo:
    """Return the cluster's id, controller and brokers.

    Fenced brokers are included if the broker that responds reports them.

    Raises:
        ClientError: no response, or an error response.
    """
    response = cluster.ask_any(
        DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse
    )
    check(response.error_code, response.error_message)
    brokers = sorted(response.brokers, key=lambda b: b.broker_id)
    return ClusterInfo(
        response.cluster_id,
        response.controller_id,
        tuple(
            BrokerInfo(b.broker_id, Address(b.host, b.port), b.rack, b.is_fenced) for b in brokers
        ),
    )


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of the cluster. `level` is None if the feature is not finalized."""

    name: str
    level: int | None
    supported: tuple[int, int]


def features(connection: Connection) -> list[Feature]:
    """Return the features that a broker supports, each with its finalized level in the cluster."""
    answer = connection.features
    finalized = {f.name: f.max_version_level for f in answer.finalized_features}
    return [
        Feature(f.name, finalized.get(f.name), (f.min_version, f.max_version))
        for f in sorted(answer.supported_features, key=lambda f: f.name)
    ]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer. Its times are in ms since the epoch, or -1 if unknown."""

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """The address of a listener of a voter."""

    id: int
    listener: str
    address: Address


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controller quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    addresses: tuple[VoterAddress, ...] = ()
    """The addresses of the voters. Apache Kafka before 3.9 does not report them."""


def describe_quorum(cluster: Cluster) -> Quorum:
    """Describe the quorum of the metadata log (KIP-595).

    Raises:
        ClientError: no response, or an error response.
    """
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])]
    )
    response = cluster.ask_controller(request, DescribeQuorumResponse, _check_quorum)
    partition = response.topics[0].partitions[0]
    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(map(_quorum_replica, partition.current_voters)),
        tuple(map(_quorum_replica, partition.observers)),
        tuple(
            VoterAddress(node.node_id, each.name, Address(each.host, each.port))
            for node in response.nodes
            for each in node.listeners
        ),
    )


def _check_quorum(response: DescribeQuorumResponse) -> None:
    check(response.error_code, response.error_message, "quorum")
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, partition.error_message, "quorum")


def _quorum_replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def unregister_broker(cluster: Cluster, broker_id: int) -> None:
    """Remove a broker that has stopped from the cluster (KIP-631).

    Raises:
        ClientError: no response, or an error response.
    """
    cluster.ask_controller(
        UnregisterBrokerRequest(broker_id=broker_id),
        UnregisterBrokerResponse,
        lambda answer: check(answer.error_code, answer.error_message, f"broker {broker_id}"),
    )


def add_voter(
    cluster: Cluster, voter_id: int, directory_id: bytes, listeners: Mapping[str, Address]
) -> None:
    """Add a controller to the voters (KIP-853), with the addresses of its listeners by name.

    Raises:
        ClientError: no response, or an error response.
    """
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=cluster.timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[
            Listener(name=name, host=each.host, port=each.port) for name, each in listeners.items()
        ],
    )
    cluster.ask_controller(
        request,
        AddRaftVoterResponse,
        lambda answer: check(answer.error_code, answer.error_message, f"voter {voter_id}"),
    )


def remove_voter(cluster: Cluster, voter_id: int, directory_id: bytes) -> None:
    """Remove a controller from the voters (KIP-853).

    Raises:
        ClientError: no response, or an error response.
    """
    cluster.ask_controller(
        RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id),
        RemoveRaftVoterResponse,
        lambda answer: check(answer.error_code, answer.error_message, f"voter {voter_id}"),
    )


def client_instance_id(cluster: Cluster) -> UUID:
    """Return the id that a broker gives a client for its telemetry (KIP-714).

    Raises:
        ClientError: no response, or the broker has no telemetry.
    """
    response = cluster.ask_any(
        GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)),
        GetTelemetrySubscriptionsResponse,
        lambda answer: check(answer.error_code, subject="telemetry"),
    )
    return UUID(bytes=bytes(response.client_instance_id))


def unregister_controller(cluster: Cluster, controller_id: int) -> None:
    """Forget the registration of a controller that has stopped (KIP-1312).

    Raises:
        ClientError: no response, or an error response.
    """
    cluster.ask_controller(
        UnregisterControllerRequest(controller_id=controller_id),
        UnregisterControllerResponse,
        lambda answer: check(
            answer.error_code, answer.error_message, f"controller {controller_id}"
        ),
    )


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. The totals are -1 if unknown.

    `sizes` holds bytes by partition. `future` holds the partitions that are moving into this
    directory.
    """

    path: str
    error: ClientError | None
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]
    future: frozenset[TopicPartition]


def describe_log_dirs(
    cluster: Cluster, node_id: int, partitions: Sequence[TopicPartition] | None = None
) -> list[LogDir]:
    """Describe the log directories of a broker. `partitions` limits the result to these partitions.

    Raises:
        ClientError: no response, or an error response.
    """
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=t, partitions=p) for t, p in by_topic(partitions).items()
        ]
    response = cluster.ask_node(
        node_id, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse
    )
    check(response.error_code, subject=f"log directories of broker {node_id}")
    return [_log_dir(result) for result in response.results]


def alter_replica_log_dirs(
    cluster: Cluster, node_id: int, paths: Mapping[TopicPartition, str]
) -> dict[TopicPartition, ClientError | None]:
    """Move replicas of a broker into other log directories of it (KIP-113).

    Raises:
        ClientError: no response.
    """
    by_path: dict[str, list[TopicPartition]] = {}
    for partition, path in paths.items():
        by_path.setdefault(path, []).append(partition)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(some).items()
                ],
            )
            for path, some in by_path.items()
        ]
    )
    response = cluster.ask_node(node_id, request, AlterReplicaLogDirsResponse)
    return {
        TopicPartition(topic.topic_name, p.partition_index): broker_error(
            p.error_code,
            subject=f"broker {node_id}, partition {topic.topic_name}-{p.partition_index}",
        )
        for topic in response.results
        for p in topic.partitions
    }


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    sizes: dict[TopicPartition, int] = {}
    future: set[TopicPartition] = set()
    for topic in result.topics:
        for p in topic.partitions:
            key = TopicPartition(topic.name, p.partition_index)
            sizes[key] = sizes.get(key, 0) + p.partition_size
            if p.is_future_key:
                future.add(key)
    return LogDir(
        result.log_dir,
        broker_error(result.error_code, subject=f"log directory {result.log_dir}"),
        result.total_bytes,
        result.usable_bytes,
        sizes,
        frozenset(future),
    )


@dataclass(frozen=True, slots=True)
class ApiRange:
    """An API that a broker offers: its key and its range of versions."""

    key: int
    version_min: int
    version_max: int


def api_versions(connection: Connection) -> list[ApiRange]:
    """Return the APIs that a broker offers, by key."""
    return [ApiRange(key, low, high) for key, (low, high) in sorted(connection.versions.items())]


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ProducerState] | ClientError]:
    """Return the active idempotent and transactional producers of partitions (KIP-664).

    Raises:
        ClientError: a broker does not respond, or does not support the request.
    """

    def build(some: list[TopicPartition]) -> DescribeProducersRequest:
        topics = by_topic(some).items()
        return DescribeProducersRequest(
            topics=[TopicRequest(name=t, partition_indexes=p) for t, p in topics]
        )

    def read(
        response: DescribeProducersResponse,
    ) -> dict[TopicPartition, list[ProducerState] | ClientError]:
        found: dict[TopicPartition, list[ProducerState] | ClientError] = {}
        for topic in response.topics:
            for p in topic.partitions:
                key = TopicPartition(topic.name, p.partition_index)
                error = broker_error(p.error_code, p.error_message, f"partition {key}")
                found[key] = error or p.active_producers
        return found

    return fan_out(
        partitions,
        to_leaders(cluster),
        build,
        DescribeProducersResponse,
        read,
        cluster.timeout_ms,
    )
