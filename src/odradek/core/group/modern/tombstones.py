"""The tombstones of members and of groups, in the order in which Apache Kafka writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.wire.primitives import Message

Key = Callable[..., Message]
"""The class of the key of a record."""


class Keys(NamedTuple):
    """The keys of the records of one type of groups."""

    current_assignment: Key
    target_assignment: Key
    member_metadata: Key
    target_epoch: Key

    def of_member(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """Return the tombstones of a member."""
        return [
            *_of_members(self.current_assignment, group_id, [member_id]),
            *_of_members(self.target_assignment, group_id, [member_id]),
            *_of_members(self.member_metadata, group_id, [member_id]),
        ]

    def of_group(
        self, group_id: str, member_ids: Iterable[str], others: Iterable[CoordinatorRecord]
    ) -> list[CoordinatorRecord]:
        """Return the tombstones of a group. `others` are those that only its type has."""
        member_ids = list(member_ids)
        return [
            *_of_members(self.current_assignment, group_id, member_ids),
            *_of_members(self.target_assignment, group_id, member_ids),
            CoordinatorRecord(self.target_epoch(group_id=group_id), None),
            *_of_members(self.member_metadata, group_id, member_ids),
            *others,
        ]


def _of_members(key: Key, group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    return [CoordinatorRecord(key(group_id=group_id, member_id=each), None) for each in member_ids]
