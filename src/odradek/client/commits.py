"""Fetches, commits and deletes the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, broker_error, check
from odradek.client.group_metadata import CommittedOffset
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.generated.offset_delete_response import OffsetDeleteResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse

__all__ = [
    "OUTSIDER",
    "CommittedOffset",
    "Identity",
    "commit_offsets",
    "delete_offsets",
    "fetch_offsets",
]


@dataclass(frozen=True, slots=True)
class Identity:
    """The member that commits offsets. The default values stand for a client that is no member."""

    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None


OUTSIDER = Identity()


def fetch_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Return the committed offsets of `partitions`, by default of all partitions.

    The result has no entry for a partition without a committed offset.

    Raises:
        ClientError: no response from the coordinator, or an error response.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=t, partition_indexes=p)
            for t, p in by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
    )

    def check_answer(response: OffsetFetchResponse) -> None:
        for each in response.groups:
            check(each.error_code, subject=f"group {group}")
            for topic in each.topics:
                for p in topic.partitions:
                    check(p.error_code, subject=f"partition {topic.name}-{p.partition_index}")

    response = cluster.ask_coordinator(group, request, OffsetFetchResponse, check_answer)
    return {
        TopicPartition(topic.name, p.partition_index): CommittedOffset(
            p.committed_offset, p.committed_leader_epoch, p.metadata or ""
        )
        for topic in response.groups[0].topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    identity: Identity = OUTSIDER,
) -> dict[TopicPartition, ClientError | None]:
    """Commit offsets. A non-member may commit only while the group is empty.

    Raises:
        ClientError: no response from the coordinator, or an error for the whole request.
    """
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    _commit_partition(index, offsets[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )

    def check_answer(response: OffsetCommitResponse) -> None:
        errors = [
            broker_error(p.error_code, subject=f"group {group}")
            for topic in response.topics
            for p in topic.partitions
        ]
        if errors and all(e is not None and e.retriable for e in errors):
            assert errors[0] is not None
            raise errors[0]

    response = cluster.ask_coordinator(group, request, OffsetCommitResponse, check_answer)
    return {
        TopicPartition(topic.name, p.partition_index): broker_error(
            p.error_code, subject=f"group {group}, partition {topic.name}-{p.partition_index}"
        )
        for topic in response.topics
        for p in topic.partitions
    }


def _commit_partition(index: int, committed: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ClientError | None]:
    """Delete committed offsets of partitions that no member subscribes to.

    Raises:
        ClientError: no response from the coordinator, or an error for the whole request.
    """
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=t, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in p]
            )
            for t, p in by_topic(partitions).items()
        ],
    )

    def check_answer(response: OffsetDeleteResponse) -> None:
        check(response.error_code, subject=f"group {group}")

    response = cluster.ask_coordinator(group, request, OffsetDeleteResponse, check_answer)
    return {
        TopicPartition(topic.name, p.partition_index): broker_error(
            p.error_code, subject=f"partition {topic.name}-{p.partition_index}"
        )
        for topic in response.topics
        for p in topic.partitions
    }
