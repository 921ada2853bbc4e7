"""The records of a new target assignment, in the order in which Apache Kafka writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.modern.group import EpochGroup, EpochMember
from odradek.core.group.state import GroupState

MemberT = TypeVar("MemberT", bound=EpochMember)
TargetT = TypeVar("TargetT")
TargetT_contra = TypeVar("TargetT_contra", contravariant=True)


class TargetRecords(Protocol[TargetT_contra]):
    """The module with the records of one type of groups."""

    def target_assignment(
        self, group_id: str, member_id: str, assignment: TargetT_contra, /
    ) -> CoordinatorRecord:
        """Return the record of a member's target assignment."""
        ...

    def target_epoch(self, group_id: str, epoch: int, timestamp_ms: int, /) -> CoordinatorRecord:
        """Return the record of the epoch of the target assignment."""
        ...


def log_targets(
    state: GroupState,
    group: EpochGroup[MemberT, TargetT],
    group_epoch: int,
    targets: Mapping[str, TargetT],
    assignor: str,
    records: TargetRecords[TargetT],
    log: list[CoordinatorRecord],
) -> None:
    """Append the records of the targets that have changed, and of the epoch of all, to `log`.

    `targets` has all members, in the order of the records.
    """
    for member_id, target in targets.items():
        if target != group.targets.get(member_id):
            log.append(records.target_assignment(group.group_id, member_id, target))
    log.append(records.target_epoch(group.group_id, group_epoch, state.clock.now_ms()))
    state.note(group.group_id, f"assignor {assignor} has computed targets of epoch {group_epoch}")
