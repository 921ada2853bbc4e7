"""The records of share groups. All keys and values are written in version 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.modern.assignment import Assignment
from odradek.core.group.modern.tombstones import Keys
from odradek.core.group.share.member import ShareMember
from odradek.core.group.share.state_partitions import StatePartitions, Topics
from odradek.wire.generated.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.generated.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from odradek.wire.generated.share_group_member_metadata_value import (
    ShareGroupMemberMetadataValue,
)
from odradek.wire.generated.share_group_metadata_key import ShareGroupMetadataKey
from odradek.wire.generated.share_group_metadata_value import ShareGroupMetadataValue
from odradek.wire.generated.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from odradek.wire.generated.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from odradek.wire.generated.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from odradek.wire.generated.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from odradek.wire.generated.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), value)


def member_metadata(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's subscription."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment. Keep the order of its partitions."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of the target assignment."""
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned.items()
        ],
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def state_partitions(
    group_id: str, partitions: StatePartitions, name_of: Callable[[bytes], str]
) -> CoordinatorRecord:
    """Return the record of the partitions with share state.

    `name_of` returns the name of a topic whose share state is being deleted.
    """
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(partitions.initializing),
        initialized_topics=_topics(partitions.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name_of(topic_id))
            for topic_id in sorted(partitions.deleting)
        ],
    )
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _topics(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in topics.items()
    ]


# -- tombstones ---------------------------------------------------------------------------------

KEYS = Keys(
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupMemberMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
)
member_tombstones = KEYS.of_member


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """Return the tombstones of a group."""
    others = [
        CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]
    return KEYS.of_group(group_id, member_ids, others)
