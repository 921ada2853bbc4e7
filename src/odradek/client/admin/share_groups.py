"""Describes share groups, and describes, changes and deletes their start offsets.

A share group has no committed offsets. Of each partition it stores the start offset: all records
before it are accepted, rejected, or were delivered as often as allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.admin.groups import Group, Member
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError, broker_error, check
from odradek.client.fan_out import fan_out, to_coordinators
from odradek.client.share.membership import SHARE_VERSION_ADVICE
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated import alter_share_group_offsets_request as altering
from odradek.wire.generated import share_group_describe_response as described
from odradek.wire.generated.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from odradek.wire.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from odradek.wire.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
)
from odradek.wire.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.wire.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest


@dataclass(frozen=True, slots=True)
class StartOffset:
    """The start offset of a partition. `lag` is the number of records after it that are not done.

    The offset is -1 before the first record is acquired. `lag` is -1 if it is not known: brokers
    before Apache Kafka 4.2 do not tell it.
    """

    offset: int
    leader_epoch: int
    lag: int


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """A share group, and the topics that its members subscribe to."""

    group: Group
    topics: tuple[str, ...]


def describe_share_groups(
    cluster: Cluster, ids: Iterable[str]
) -> dict[str, ShareGroup | ClientError]:
    """Describe share groups and their members.

    Raises:
        ClientError: a coordinator does not respond.
    """

    def read(
        response: described.ShareGroupDescribeResponse,
    ) -> dict[str, ShareGroup | ClientError]:
        return {each.group_id: _group(each) for each in response.groups}

    return fan_out(
        ids,
        to_coordinators(cluster),
        lambda some: ShareGroupDescribeRequest(group_ids=some),
        described.ShareGroupDescribeResponse,
        read,
        cluster.timeout_ms,
    )


def _group(group: described.DescribedGroup) -> ShareGroup | ClientError:
    error = _error(group.error_code, group.error_message, f"group {group.group_id}")
    if error is not None:
        return error
    members = tuple(_member(each) for each in group.members)
    topics = sorted({topic for each in group.members for topic in each.subscribed_topic_names})
    return ShareGroup(
        Group(
            group.group_id,
            "share",
            group.group_state,
            group.assignor_name,
            group.group_epoch,
            members,
        ),
        tuple(topics),
    )


def _member(member: described.Member) -> Member:
    partitions = (
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return Member(
        member.member_id, None, member.client_id, member.client_host, tuple(sorted(partitions))
    )


def _error(code: int, message: str | None, subject: str) -> BrokerError | None:
    error = broker_error(code, message, subject)
    if error is not None and error.code is ErrorCode.UNSUPPORTED_VERSION:
        return BrokerError(
            error.code, "Share groups are not enabled.", subject, SHARE_VERSION_ADVICE
        )
    return error


def describe_start_offsets(
    cluster: Cluster, group: str
) -> dict[TopicPartition, StartOffset | ClientError]:
    """Return the start offsets of all partitions in which the group has a state.

    Raises:
        ClientError: no response from the coordinator, or an error for the whole group.
    """
    subject = f"group {group}"
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )

    def check_answer(response: DescribeShareGroupOffsetsResponse) -> None:
        for each in response.groups:
            error = _error(each.error_code, each.error_message, subject)
            if error is not None:
                raise error

    response = cluster.ask_coordinator(
        group, request, DescribeShareGroupOffsetsResponse, check_answer
    )
    found: dict[TopicPartition, StartOffset | ClientError] = {}
    for each in response.groups:
        found |= _start_offsets(each)
    return found


def _start_offsets(
    group: DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, StartOffset | ClientError]:
    found: dict[TopicPartition, StartOffset | ClientError] = {}
    for topic in group.topics:
        for p in topic.partitions:
            key = TopicPartition(topic.topic_name, p.partition_index)
            error = broker_error(p.error_code, p.error_message, f"partition {key}")
            found[key] = error or StartOffset(p.start_offset, p.leader_epoch, p.lag)
    return found


def alter_start_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ClientError | None]:
    """Set the start offsets of a group without members. What was acknowledged is forgotten.

    Raises:
        ClientError: no response from the coordinator, or an error for the whole group, such as
            NON_EMPTY_GROUP.
    """
    request = altering.AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    altering.AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )

    def check_answer(response: AlterShareGroupOffsetsResponse) -> None:
        check(response.error_code, response.error_message, f"group {group}")

    response = cluster.ask_coordinator(group, request, AlterShareGroupOffsetsResponse, check_answer)
    return {
        TopicPartition(topic.topic_name, p.partition_index): broker_error(
            p.error_code, p.error_message, f"partition {topic.topic_name}-{p.partition_index}"
        )
        for topic in response.responses
        for p in topic.partitions
    }


def delete_start_offsets(
    cluster: Cluster, group: str, topics: Iterable[str]
) -> dict[str, ClientError | None]:
    """Delete the state of a group without members in some topics.

    Raises:
        ClientError: no response from the coordinator, or an error for the whole group.
    """
    request = DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics],
    )

    def check_answer(response: DeleteShareGroupOffsetsResponse) -> None:
        check(response.error_code, response.error_message, f"group {group}")

    response = cluster.ask_coordinator(
        group, request, DeleteShareGroupOffsetsResponse, check_answer
    )
    return {
        topic.topic_name: broker_error(
            topic.error_code, topic.error_message, f"topic {topic.topic_name}"
        )
        for topic in response.responses
    }
