"""Applies the records of Streams groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.modern.assignment import LEAVE_EPOCH
from odradek.core.group.state import GroupState
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.tasks import NONE_HELD, Tasks, task_set
from odradek.core.group.streams.topology import Topology
from odradek.wire.generated.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from odradek.wire.generated.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from odradek.wire.generated.streams_group_member_metadata_value import (
    StreamsGroupMemberMetadataValue,
)
from odradek.wire.generated.streams_group_metadata_key import StreamsGroupMetadataKey
from odradek.wire.generated.streams_group_metadata_value import StreamsGroupMetadataValue
from odradek.wire.generated.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from odradek.wire.generated.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from odradek.wire.generated.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from odradek.wire.generated.streams_group_topology_key import StreamsGroupTopologyKey
from odradek.wire.generated.streams_group_topology_value import StreamsGroupTopologyValue

NO_TARGETS_EPOCH: Final = -1


class StreamsReplay:
    """Has one method per record type. `by_kind` has the methods. A tombstone has the value None."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            17: self._group_metadata,
            19: self._member_metadata,
            20: self._target_epoch,
            21: self._target,
            22: self._current_assignment,
            23: self._topology,
        }

    def _known(self, group_id: str) -> StreamsGroup | None:
        """Return the group; None if it does not exist."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def _known_or_new(self, group_id: str) -> StreamsGroup:
        """Return the group. Create it if necessary.

        The new group may replace a simple classic group, which only stores offsets.
        """
        group = self._state.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        assert group is None or (isinstance(group, ClassicGroup) and group.is_simple), (
            f"{group} exists instead of a Streams group"
        )
        made = StreamsGroup(group_id, self._state.journal)
        self._state.journal.put(self._state.groups, group_id, made)
        return made

    def _group_metadata(
        self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            group.set_epoch(value.epoch, value.metadata_hash)
            configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            group.set_validation(value.validated_topology_epoch, configs)
            return
        known = self._known(key.group_id)
        if known is not None:
            assert not known.members, f"{known} is deleted before its members"
            self._state.journal.remove(self._state.groups, key.group_id)

    def _topology(
        self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
    ) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_topology(Topology.of(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_topology(None)

    def _member_metadata(
        self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.update_member(member.with_metadata(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_member(key.member_id)

    def _target_epoch(
        self,
        key: StreamsGroupTargetAssignmentMetadataKey,
        value: StreamsGroupTargetAssignmentMetadataValue | None,
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
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            target = Tasks(
                task_set(value.active_tasks),
                task_set(value.standby_tasks),
                task_set(value.warmup_tasks),
            )
            self._known_or_new(key.group_id).set_target(key.member_id, target)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_target(key.member_id)

    def _current_assignment(
        self,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            member = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.update_member(member.with_current_assignment(value))
            return
        known = self._known(key.group_id)
        gone = None if known is None else known.members.get(key.member_id)
        if known is not None and gone is not None:
            known.update_member(
                gone._replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=NONE_HELD,
                    pending_revocation=NONE_HELD,
                )
            )
