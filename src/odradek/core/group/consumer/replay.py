"""Applies the records of consumer groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.modern.assignment import LEAVE_EPOCH, ordered_set
from odradek.core.group.modern.subscriptions import ResolvedRegex
from odradek.core.group.state import GroupState
from odradek.wire.generated.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
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
)
from odradek.wire.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

NO_TARGETS_EPOCH = -1


class Replay:
    """Has one method per record type. `by_kind` has the methods. A tombstone has the value None."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            3: self._group_epoch,
            4: self._partition_metadata,
            5: self._member_metadata,
            6: self._target_epoch,
            7: self._target,
            8: self._current_assignment,
            16: self._resolved_regex,
        }

    def _known(self, group_id: str) -> ConsumerGroup | None:
        """Return the group. Return None if it is deleted or is a classic group again.

        Tombstones of such a group may still follow.
        """
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _known_or_new(self, group_id: str) -> ConsumerGroup:
        """Return the group. Create it if necessary.

        The new group may replace a simple classic group, which only stores offsets.
        """
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        assert group is None or (isinstance(group, ClassicGroup) and group.is_simple), (
            f"{group} exists instead of a consumer group"
        )
        made = ConsumerGroup(group_id, self._state.journal)
        self._state.journal.put(self._state.groups, group_id, made)
        return made

    def _group_epoch(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_epoch(value.epoch, value.metadata_hash)
            return
        group = self._known(key.group_id)
        if group is not None:
            assert not group.members, f"{group} is deleted before its members"
            self._state.journal.remove(self._state.groups, key.group_id)

    def _partition_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: object) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_has_partition_metadata(True)
            return
        group = self._known(key.group_id)
        if group is not None:
            group.set_has_partition_metadata(False)

    def _member_metadata(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.update_member(member.with_metadata(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_member(key.member_id)

    def _target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_assignment_epoch(NO_TARGETS_EPOCH, 0)

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            target = {
                each.topic_id: ordered_set(each.partitions)
                for each in value.topic_partitions
                if each.partitions
            }
            self._known_or_new(key.group_id).set_target(key.member_id, target)
            return
        group = self._known(key.group_id)
        if group is not None:
            group.remove_target(key.member_id)

    def _current_assignment(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.update_member(member.with_current_assignment(value))
            return
        known = self._known(key.group_id)
        gone = None if known is None else known.members.get(key.member_id)
        if known is not None and gone is not None:
            known.update_member(
                gone._replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned={},
                    pending_revocation={},
                )
            )

    def _resolved_regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group = self._known_or_new(key.group_id)
            group.set_resolved_regex(key.regular_expression, resolved)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_resolved_regex(key.regular_expression, None)
