"""ConsumerGroupDescribe: the current state of a group."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.metadata.image import TopicsImage
from odradek.wire.generated.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, default_assignor: str, topics: TopicsImage) -> DescribedGroup:
    """Return the state and the epochs of a group, and the assignments of each member."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, each, topics) for each in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> Member:
    """Describe a member. Its assignment includes the partitions that it must revoke."""
    held: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.pending_revocation):
        for topic_id, partitions in part.items():
            held.setdefault(topic_id, []).extend(partitions)
    target = group.target(member.member_id)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held.items(), topics),
        target_assignment=_assignment(target.items(), topics),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(
    partitions: Iterable[tuple[bytes, Iterable[int]]], topics: TopicsImage
) -> Assignment:
    """Describe an assignment. Omit deleted topics."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=topics.by_id[topic_id].name, partitions=sorted(those)
            )
            for topic_id, those in partitions
            if topic_id in topics.by_id
        ]
    )
