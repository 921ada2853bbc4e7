"""ShareGroupDescribe: the current state of a group."""

from __future__ import annotations

from odradek.core.group.share.assignor import NAME
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.member import ShareMember
from odradek.core.metadata.image import TopicsImage
from odradek.wire.generated.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def describe(group: ShareGroup, topics: TopicsImage) -> DescribedGroup:
    """Return the state and the epochs of a group, and the assignment of each member."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        members=[_member(each, topics) for each in group.members.values()],
    )


def _member(member: ShareMember, topics: TopicsImage) -> Member:
    """Describe a member. Omit deleted topics from its assignment."""
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topics.by_id[topic_id].name,
                    partitions=sorted(partitions),
                )
                for topic_id, partitions in member.assigned.items()
                if topic_id in topics.by_id
            ]
        ),
    )
