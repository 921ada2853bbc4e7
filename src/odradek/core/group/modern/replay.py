"""Applies the records that all groups with server-side assignments have: new ones, and loaded ones.

A subclass names the classes of its group and of its members, and applies the records that only its
type of groups has. The value of a tombstone is None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.modern.group import EpochGroup, EpochMember
from odradek.core.group.state import GroupState

NO_TARGETS_EPOCH = -1


class ReplayedMember(EpochMember, Protocol):
    """A member that is changed by records. The values are those of the records of its group."""

    def with_metadata(self, value: Any) -> Self:
        """Return the member after the replay of its metadata record."""
        ...

    def with_current_assignment(self, value: Any) -> Self:
        """Return the member after the replay of its current assignment record."""
        ...

    def without_assignment(self) -> Self:
        """Return the member after the replay of the tombstone of its current assignment."""
        ...


MemberT = TypeVar("MemberT", bound=ReplayedMember)
TargetT = TypeVar("TargetT")
GroupT = TypeVar("GroupT", bound=EpochGroup[Any, Any])


class EpochReplay(ABC, Generic[GroupT, MemberT, TargetT]):
    """Has one method per record type."""

    group_class: ClassVar[type[Any]]
    member_class: ClassVar[type[Any]]

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def _known(self, group_id: str) -> GroupT | None:
        """Return the group. Return None if it is deleted or has another type by now.

        Tombstones of such a group may still follow.
        """
        group: Any = self._state.groups.get(group_id)
        return group if isinstance(group, self.group_class) else None

    def _known_or_new(self, group_id: str) -> GroupT:
        """Return the group. Create it if necessary.

        The new group may replace a simple classic group, which only stores offsets.
        """
        known = self._known(group_id)
        if known is not None:
            return known
        group = self._state.groups.get(group_id)
        assert group is None or (isinstance(group, ClassicGroup) and group.is_simple), (
            f"{group} exists instead of a {self.group_class.__name__}"
        )
        made = self.group_class(group_id, self._state.journal)
        self._state.journal.put(self._state.groups, group_id, made)
        new: GroupT = made
        return new

    def _member(self, group: GroupT, member_id: str) -> MemberT:
        member: MemberT = group.members.get(member_id) or self.member_class(member_id)
        return member

    @abstractmethod
    def _target_of(self, value: Any) -> TargetT:
        """Return the target assignment in the value of a record."""

    def _set_metadata(self, group: GroupT, value: Any) -> None:
        """Apply the value of the record of the group."""
        group.set_epoch(value.epoch, value.metadata_hash)

    def _group_metadata(self, key: Any, value: Any) -> None:
        if value is not None:
            self._set_metadata(self._known_or_new(key.group_id), value)
            return
        group = self._known(key.group_id)
        if group is not None:
            assert not group.members, f"{group} is deleted before its members"
            self._state.journal.remove(self._state.groups, key.group_id)

    def _member_metadata(self, key: Any, value: Any) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            group.update_member(self._member(group, key.member_id).with_metadata(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_member(key.member_id)

    def _target_epoch(self, key: Any, value: Any) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_assignment_epoch(NO_TARGETS_EPOCH, 0)

    def _target(self, key: Any, value: Any) -> None:
        if value is not None:
            target = self._target_of(value)
            self._known_or_new(key.group_id).set_target(key.member_id, target)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.remove_target(key.member_id)

    def _current_assignment(self, key: Any, value: Any) -> None:
        if value is not None:
            group = self._known_or_new(key.group_id)
            group.update_member(self._member(group, key.member_id).with_current_assignment(value))
            return
        known = self._known(key.group_id)
        gone = None if known is None else known.members.get(key.member_id)
        if known is not None and gone is not None:
            known.update_member(gone.without_assignment())
