"""A member of a Streams group. Members are immutable, so a change creates a new object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH, with_epochs
from odradek.core.group.streams.tasks import NONE_HELD, HeldTasks, MemberTasks, task_set
from odradek.wire.generated.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from odradek.wire.generated.streams_group_member_metadata_value import (
    StreamsGroupMemberMetadataValue,
)

NO_TAGS: Final[Mapping[str, str]] = {}


class MemberState(IntEnum):
    """The state of a member. The numbers are the same as in the record."""

    STABLE = 1
    """The member has its target assignment."""
    UNREVOKED_TASKS = 2
    """The member must revoke tasks before it gets a higher epoch."""
    UNRELEASED_TASKS = 3
    """Other members must release tasks before this member has its target assignment."""
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _number: object) -> MemberState:
        """A newer coordinator wrote a state that this version does not have."""
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """The address at which a process answers queries of its state."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """One member. See `MemberState` for its states."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = NO_TAGS
    assigned: MemberTasks = NONE_HELD
    pending_revocation: MemberTasks = NONE_HELD
    """The tasks that the member must revoke before it gets a higher epoch."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def must_revoke(self) -> bool:
        """Whether the member must revoke tasks before it gets a higher epoch."""
        return self.state is MemberState.UNREVOKED_TASKS

    def moved_to(self, member_epoch: int) -> StreamsMember:
        """Return the member in another epoch. Its current epoch becomes the previous epoch."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def epoch_of(self, subtopology: str, partition: int) -> int | None:
        """Return the epoch in which an active task was assigned to the member.

        Return None if the member neither has the task nor must revoke it.
        """
        for held in (self.assigned.active, self.pending_revocation.active):
            epoch = held.get(subtopology, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        """Return the member after the replay of its metadata record."""
        endpoint = value.user_endpoint
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )

    def with_current_assignment(
        self, value: StreamsGroupCurrentMemberAssignmentValue
    ) -> StreamsMember:
        """Return the member after the replay of its current assignment record."""
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=MemberTasks(
                _held(value.active_tasks, value.member_epoch),
                task_set(value.standby_tasks),
                task_set(value.warmup_tasks),
            ),
            pending_revocation=MemberTasks(
                _held(value.active_tasks_pending_revocation, value.member_epoch),
                task_set(value.standby_tasks_pending_revocation),
                task_set(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """Return the member after the replay of the tombstone of its current assignment."""
        return self._replace(
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned=NONE_HELD,
            pending_revocation=NONE_HELD,
        )


def _held(tasks: Iterable[TaskIds], member_epoch: int) -> HeldTasks:
    """Return the tasks with their epochs."""
    held: dict[str, Mapping[int, int]] = {}
    for each in tasks:
        held[each.subtopology_id] = with_epochs(
            each.partitions, each.assignment_epochs, member_epoch
        )
    return held
