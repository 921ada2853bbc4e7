"""The record types of `__consumer_offsets`, and the records of classic groups and of offsets."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from odradek.core.coordinator.record import CoordinatorRecord, KeyMessages
from odradek.core.group import description_record
from odradek.wire.generated.group_metadata_key import GroupMetadataKey
from odradek.wire.generated.group_metadata_value import GroupMetadataValue, MemberMetadata
from odradek.wire.generated.offset_commit_key import OffsetCommitKey
from odradek.wire.generated.offset_commit_value import OffsetCommitValue
from odradek.wire.names import snake_case

OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_EXPIRING_VERSION = 1
"""The only version with an expiry time. It is used for commits with their own retention time."""
GROUP_METADATA_VERSION = 3

TYPES = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""The supported record types. Other records, for example of newer versions, are ignored and stay
in the log."""


def _messages() -> KeyMessages:
    found = {}
    for kind, name in TYPES.items():
        classes = []
        for class_name in (name + "Key", name + "Value"):
            module = import_module(f"odradek.wire.generated.{snake_case(class_name)}")
            classes.append(getattr(module, class_name))
        found[kind] = (classes[0], classes[1])
    found[description_record.KIND] = (
        description_record.DescriptionKey,
        description_record.DescriptionValue,
    )
    return found


MESSAGES = _messages()
"""Key and value classes by record type."""


def offset_commit(
    group_id: str, topic: str, partition: int, value: OffsetCommitValue
) -> CoordinatorRecord:
    """Return the record of a committed offset."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    version = OFFSET_COMMIT_VERSION
    if value.expire_timestamp != -1:
        version = OFFSET_COMMIT_EXPIRING_VERSION
    return CoordinatorRecord(key, value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the tombstone of a committed offset."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return CoordinatorRecord(key, None)


def group_metadata(
    group_id: str,
    *,
    protocol_type: str = "",
    protocol: str | None = None,
    generation: int = 0,
    leader: str | None = None,
    state_timestamp_ms: int = -1,
    members: Iterable[MemberMetadata] = (),
) -> CoordinatorRecord:
    """Return the record of a classic group."""
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        protocol=protocol,
        generation=generation,
        leader=leader,
        current_state_timestamp=state_timestamp_ms,
        members=list(members),
    )
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)
