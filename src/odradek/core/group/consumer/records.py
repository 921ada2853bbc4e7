"""The records of consumer groups. All keys and values are written in version 0."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.consumer.member import ConsumerMember, HeldPartitions
from odradek.core.group.modern.assignment import Assignment
from odradek.core.group.modern.tombstones import Keys
from odradek.wire.generated.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.generated.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.generated.consumer_group_metadata_key import ConsumerGroupMetadataKey
from odradek.wire.generated.consumer_group_metadata_value import ConsumerGroupMetadataValue
from odradek.wire.generated.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from odradek.wire.generated.consumer_group_regular_expression_key import (
    ConsumerGroupRegularExpressionKey,
)
from odradek.wire.generated.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from odradek.wire.generated.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from odradek.wire.generated.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from odradek.wire.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's subscription."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment. Keep the order of its partitions."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of the target assignment."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topics(member.assigned),
        partitions_pending_revocation=_topics(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def _topics(held: HeldPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[each] for each in sorted(partitions)],
        )
        for topic_id, partitions in held.items()
    ]


def resolved_regex(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    """Return the record of the topics that match a pattern. `version` is the metadata version."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, value)


# -- tombstones ---------------------------------------------------------------------------------

KEYS = Keys(
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
member_tombstones = KEYS.of_member


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a record that only versions before Kafka 4.1 need."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def resolved_regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return the tombstone of a pattern to which no member subscribes any more."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, None)


def group_tombstones(
    group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> list[CoordinatorRecord]:
    """Return the tombstones of a group."""
    others = [
        *(resolved_regex_tombstone(group_id, each) for each in regexes),
        partition_metadata_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
    return KEYS.of_group(group_id, member_ids, others)
