"""Moves replicas between brokers (KIP-455), and elects preferred leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, broker_error, check
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.generated.elect_leaders_response import ElectLeadersResponse
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from odradek.wire.generated.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)

PREFERRED, UNCLEAN = 0, 1
"""Kinds of elections."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose replicas are being moved."""

    replicas: tuple[int, ...]
    """All replicas: those that stay, those that are added, and those that are removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def list_reassignments(cluster: Cluster) -> dict[TopicPartition, Reassignment]:
    """Return the partitions whose replicas are being moved.

    Raises:
        ClientError: no response, or an error response.
    """
    response = cluster.ask_controller(
        ListPartitionReassignmentsRequest(timeout_ms=cluster.timeout_ms),
        ListPartitionReassignmentsResponse,
        lambda answer: check(answer.error_code, answer.error_message),
    )
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def reassign(
    cluster: Cluster, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, ClientError | None]:
    """Begin to move partitions to these replicas; return the error of each, or None.

    None as the replicas cancels the move of a partition.

    Raises:
        ClientError: no response, or an error response.
    """
    if not wanted:
        return {}
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in wanted.items():
        each = ReassignablePartition(
            partition_index=index, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(topic, []).append(each)
    response = cluster.ask_controller(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=cluster.timeout_ms,
        ),
        AlterPartitionReassignmentsResponse,
        lambda answer: check(answer.error_code, answer.error_message),
    )
    found: dict[TopicPartition, ClientError | None] = {}
    for result in response.responses:
        for p in result.partitions:
            key = TopicPartition(result.name, p.partition_index)
            found[key] = broker_error(p.error_code, p.error_message, f"partition {key}")
    return found


def elect_preferred_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ClientError | None]:
    """Make the preferred replica the leader of each partition; return the error of each, or None.

    It is no error if the preferred replica leads already.

    Raises:
        ClientError: no response, or an error response.
    """
    return elect_leaders(cluster, PREFERRED, partitions)


def elect_leaders(
    cluster: Cluster, kind: int, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ClientError | None]:
    """Elect the leaders of partitions, by default of all; return the error of each, or None.

    `kind` is PREFERRED, or UNCLEAN: then partitions without a leader get one that is not in sync, and
    records may be lost. It is no error if no election is needed.

    Raises:
        ClientError: no response, or an error response.
    """
    topics = None if partitions is None else by_topic(partitions)
    if topics is not None and not topics:
        return {}
    response = cluster.ask_controller(
        ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None
            if topics is None
            else [TopicPartitions(topic=t, partitions=p) for t, p in topics.items()],
            timeout_ms=cluster.timeout_ms,
        ),
        ElectLeadersResponse,
        lambda answer: check(answer.error_code),
    )
    found: dict[TopicPartition, ClientError | None] = {}
    for result in response.replica_election_results:
        for p in result.partition_result:
            key = TopicPartition(result.topic, p.partition_id)
            code = 0 if p.error_code == ErrorCode.ELECTION_NOT_NEEDED else p.error_code
            found[key] = broker_error(code, p.error_message, f"partition {key}")
    return found
