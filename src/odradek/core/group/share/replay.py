"""Applies the records of share groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.modern.assignment import LEAVE_EPOCH, NO_ASSIGNMENT
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.member import ShareMember, assignment_of
from odradek.core.group.share.state_partitions import StatePartitions, Topics, TopicState
from odradek.core.group.state import GroupState
from odradek.wire.generated.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
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
    TopicPartitionsInfo,
)
from odradek.wire.generated.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from odradek.wire.generated.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from odradek.wire.generated.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

NO_TARGETS_EPOCH = -1


class ShareReplay:
    """Has one method per record type. `by_kind` has the methods. A tombstone has the value None."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            10: self._member_metadata,
            11: self._group_epoch,
            12: self._target_epoch,
            13: self._target,
            14: self._current_assignment,
            15: self._state_partitions,
        }

    def _known(self, group_id: str) -> ShareGroup | None:
        """Return the group; None if it does not exist."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _known_or_new(self, group_id: str) -> ShareGroup:
        """Return the group. Create it if necessary.

        The new group may replace a simple classic group, which only stores offsets.
        """
        group = self._state.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        assert group is None or (isinstance(group, ClassicGroup) and group.is_simple), (
            f"{group} exists instead of a share group"
        )
        made = ShareGroup(group_id, self._state.journal)
        self._state.journal.put(self._state.groups, group_id, made)
        return made

    def _group_epoch(
        self, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None
    ) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_epoch(value.epoch, value.metadata_hash)
            return
        group = self._known(key.group_id)
        if group is not None:
            assert not group.members, f"{group} is deleted before its members"
            self._state.journal.remove(self._state.groups, key.group_id)

    def _member_metadata(
        self, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.update_member(member.with_metadata(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_member(key.member_id)

    def _target_epoch(
        self,
        key: ShareGroupTargetAssignmentMetadataKey,
        value: ShareGroupTargetAssignmentMetadataValue | None,
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
        key: ShareGroupTargetAssignmentMemberKey,
        value: ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            target = assignment_of(value.topic_partitions)
            self._known_or_new(key.group_id).set_target(key.member_id, target)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_target(key.member_id)

    def _current_assignment(
        self,
        key: ShareGroupCurrentMemberAssignmentKey,
        value: ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.update_member(member.with_current_assignment(value))
            return
        known = self._known(key.group_id)
        gone = None if known is None else known.members.get(key.member_id)
        if known is not None and gone is not None:
            known.update_member(
                gone._replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=NO_ASSIGNMENT,
                )
            )

    def _state_partitions(
        self,
        key: ShareGroupStatePartitionMetadataKey,
        value: ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        if value is not None:
            partitions = StatePartitions(
                self._topics(value.initializing_topics),
                self._topics(value.initialized_topics),
                frozenset(each.topic_id for each in value.deleting_topics),
            )
            self._known_or_new(key.group_id).set_state_partitions(partitions)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_state_partitions(None)

    def _topics(self, topics: Iterable[TopicPartitionsInfo]) -> Topics:
        now_ms = self._state.clock.now_ms()
        return {
            each.topic_id: TopicState(each.topic_name, frozenset(each.partitions), now_ms)
            for each in topics
        }
