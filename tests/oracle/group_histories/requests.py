"""Builds the requests of a history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from odradek.core.group.consumer_protocol import write_assignment
from odradek.wire.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.wire.generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.primitives import Message

if TYPE_CHECKING:
    from tests.oracle.group_histories.player import Member, Player

COUNTS = (1, 2, 4, 7, 12)
USUAL, COLLIDING = "t", "c"
"""Families of topics. The topic ids of the second family are in one bucket of Java's hash
tables."""
TOPICS = {f"{family}{count}": count for family in (USUAL, COLLIDING) for count in COUNTS}
"""The number of partitions of each topic."""
GROUP_RESOURCE = 32
TOPIC_IDS_VERSION = 10
MEMBER_VERSION = 9


def _topics(player: Player, partitions: Iterable[tuple[str, int]]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        by_topic.setdefault(name, []).append(index)
    return [
        TopicPartitions(topic_id=player.topic_ids[name], partitions=indexes)
        for name, indexes in by_topic.items()
    ]


def beat(player: Player, member: Member) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=player.group_id,
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        topic_partitions=_topics(player, member.owned),
    )


def consumer_join(
    player: Player, member: Member, *, topics: list[str], **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    request = beat(player, member)
    request.member_epoch = 0
    request.subscribed_topic_names = topics
    request.rebalance_timeout_ms = 20_000
    request.topic_partitions = []
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def bad(player: Player, fields: dict[str, Any]) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=player.group_id,
        member_id="stranger",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t4"],
        topic_partitions=[],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def _subscription(topics: list[str], owned: Iterable[tuple[str, int]]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for name, index in sorted(owned):
        by_topic.setdefault(name, []).append(index)
    message = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[TopicPartition(topic=t, partitions=p) for t, p in by_topic.items()],
    )
    return b"\x00\x01" + message.encode(1)


def classic_join(
    player: Player,
    member: Member,
    *,
    version: int = 9,
    topics: list[str] | None = None,
    protocols: tuple[str, ...] = ("range",),
    protocol_type: str = "consumer",
    instance_id: str | None = None,
    member_id: str | None = None,
    session_timeout_ms: int = 20_000,
    forgets: bool = False,
) -> tuple[int, JoinGroupRequest]:
    """Return a JoinGroup request. With `forgets`, the member sends no member id."""
    metadata = _subscription(member.topics, member.owned)
    request = JoinGroupRequest(
        group_id=player.group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=6_000,
        member_id="" if forgets else member.member_id,
        group_instance_id=member.instance_id if version >= 5 else None,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in protocols],
    )
    return version, request


def classic_sync(player: Player, member: Member, step: int) -> SyncGroupRequest:
    """Return a SyncGroup request of the leader, which assigns partitions by the names of
    members."""
    assignments = []
    if member.is_leader:
        order = sorted(member.others, key=player.name_of)
        for number, member_id in enumerate(order):
            mine = {
                topic: list(range(TOPICS[topic]))[number :: len(order)] for topic in member.topics
            }
            some = {topic: partitions for topic, partitions in mine.items() if partitions}
            part = write_assignment(some, like=b"\x00\x01")
            assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=part))
    return SyncGroupRequest(
        group_id=player.group_id,
        generation_id=member.generation + step,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


def classic_heartbeat(player: Player, member: Member, step: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=player.group_id,
        generation_id=member.generation + step,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )


def classic_leave(player: Player, member: Member, by_instance: bool) -> LeaveGroupRequest:
    identity = MemberIdentity(
        member_id="" if by_instance else member.member_id, group_instance_id=member.instance_id
    )
    return LeaveGroupRequest(group_id=player.group_id, members=[identity])


def commit(
    player: Player,
    member: Member | None,
    version: int,
    *,
    topic: str,
    partition: int,
    offset: int,
    step: int = 0,
    is_classic: bool = False,
) -> OffsetCommitRequest:
    request = OffsetCommitRequest(
        group_id=player.group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic if version < TOPIC_IDS_VERSION else "",
                topic_id=player.topic_ids[topic],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata="m"
                    )
                ],
            )
        ],
    )
    if version < TOPIC_IDS_VERSION:
        request.topics[0].topic_id = bytes(16)
    if member is not None:
        epoch = member.generation if is_classic else member.epoch
        request.member_id = member.member_id
        request.generation_id_or_member_epoch = epoch + step
        request.group_instance_id = member.instance_id
    return request


def offsets(
    player: Player, member: Member | None, version: int, topics: list[str], step: int
) -> OffsetFetchRequest:
    wanted = [
        OffsetFetchRequestTopics(
            name="" if version >= TOPIC_IDS_VERSION else name,
            topic_id=player.topic_ids[name] if version >= TOPIC_IDS_VERSION else bytes(16),
            partition_indexes=[0, 1],
        )
        for name in topics
    ]
    group = OffsetFetchRequestGroup(group_id=player.group_id, topics=wanted)
    if member is not None and version >= MEMBER_VERSION:
        group.member_id, group.member_epoch = member.member_id, member.epoch + step
    return OffsetFetchRequest(groups=[group])


def delete_offset(player: Player, topic: str, partition: int) -> OffsetDeleteRequest:
    index = OffsetDeleteRequestPartition(partition_index=partition)
    one = OffsetDeleteRequestTopic(name=topic, partitions=[index])
    return OffsetDeleteRequest(group_id=player.group_id, topics=[one])


def describe(player: Player, name: str) -> Message:
    if name == "DescribeGroups":
        return DescribeGroupsRequest(groups=[player.group_id])
    return ConsumerGroupDescribeRequest(group_ids=[player.group_id])


def list_groups(states: list[str], types: list[str]) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=states, types_filter=types)


def delete_group(player: Player) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=[player.group_id])


def session_timeout(player: Player, ms: int) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value=str(ms))
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=player.group_id, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])
