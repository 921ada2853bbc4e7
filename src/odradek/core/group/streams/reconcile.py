"""The next step of a member towards its target assignment (Kafka's `CurrentAssignmentBuilder`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import MemberState, StreamsMember
from odradek.core.group.streams.tasks import NONE_HELD, MemberTasks, Tasks
from odradek.model.errors import ApiError, ErrorCode

IsBlocked = Callable[[str, int], bool]


class Reconciliation:
    """One step of one member.

    `owned` has the tasks that the member has reported; None if its request has no tasks.
    """

    def __init__(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target_epoch: int,
        target: Tasks,
        owned: Tasks | None,
    ) -> None:
        self._group = group
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._owned = owned

    def step(self) -> StreamsMember:
        """Return the member after the step.

        Raises:
            ApiError: FENCED_MEMBER_EPOCH: the member must rejoin.
        """
        member = self._member
        if member.state is MemberState.STABLE:
            if member.member_epoch == self._target_epoch:
                return member
            return self._next(member.member_epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            if self._owns_any(member.pending_revocation):
                return member
            return self._next(member.member_epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._next(member.member_epoch)
        # A newer coordinator wrote an unknown state, so the member must revoke all tasks.
        if self._owned is None or not self._owned.is_empty:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "This coordinator does not know the state of the member. The member must rejoin.",
            )
        return self._next(self._target_epoch)

    def _owns_any(self, tasks: MemberTasks) -> bool:
        """Return whether the member may still have one of the tasks.

        If the member has not reported its tasks, it may have them.
        """
        return self._owned is None or self._owned.has_any(tasks)

    def _next(self, member_epoch: int) -> StreamsMember:
        """Revoke the tasks that are not in the target. If there are none, add the free tasks.

        If the member must revoke tasks, its next epoch is `member_epoch`.
        """
        member, target = self._member, self._target
        held, epoch = member.assigned, self._target_epoch
        active = _Difference(held.active, target.active, self._is_active_blocked)
        standby = _Difference(held.standby, target.standby, self._is_copy_blocked)
        warmup = _Difference(held.warmup, target.warmup, self._is_copy_blocked)
        gone = MemberTasks(_with_epochs(active.gone, held.active, epoch), standby.gone, warmup.gone)
        if not gone.is_empty and self._owns_any(gone):
            kept = _with_epochs(active.kept, held.active, epoch)
            return member.moved_to(member_epoch)._replace(
                state=MemberState.UNREVOKED_TASKS,
                assigned=MemberTasks(kept, standby.kept, warmup.kept),
                pending_revocation=gone,
            )
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        return member.moved_to(epoch)._replace(
            state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
            assigned=MemberTasks(
                _with_epochs(active.with_free, held.active, epoch),
                standby.with_free,
                warmup.with_free,
            ),
            pending_revocation=NONE_HELD,
        )

    def _is_active_blocked(self, subtopology: str, partition: int) -> bool:
        """Return whether any process has the active task, or this process has another copy."""
        group, process = self._group, self._member.process_id
        return (
            group.active_owner(subtopology, partition) is not None
            or process in group.standby_owners(subtopology, partition)
            or process in group.warmup_owners(subtopology, partition)
        )

    def _is_copy_blocked(self, subtopology: str, partition: int) -> bool:
        """Return whether this process has the task in any role."""
        group, process = self._group, self._member.process_id
        return (
            group.active_owner(subtopology, partition) == process
            or process in group.standby_owners(subtopology, partition)
            or process in group.warmup_owners(subtopology, partition)
        )


class _Difference:
    """What changes between the present tasks and the target tasks of a role."""

    def __init__(
        self,
        present: Mapping[str, Iterable[int]],
        target: Mapping[str, Iterable[int]],
        is_blocked: IsBlocked,
    ) -> None:
        self.kept: dict[str, frozenset[int]] = {}
        self.gone: dict[str, frozenset[int]] = {}
        self.with_free: dict[str, frozenset[int]] = {}
        self.is_waiting = False
        """Whether another member must release a task before this member has its target."""
        for each in dict.fromkeys((*target, *present)):
            had, wanted = frozenset(present.get(each, ())), frozenset(target.get(each, ()))
            kept = had & wanted
            free = frozenset(index for index in wanted - kept if not is_blocked(each, index))
            self.is_waiting = self.is_waiting or len(kept) + len(free) < len(wanted)
            for tasks, found in (
                (self.kept, kept),
                (self.gone, had - wanted),
                (self.with_free, kept | free),
            ):
                if found:
                    tasks[each] = found


def _with_epochs(
    tasks: Mapping[str, Iterable[int]], held: Mapping[str, Mapping[int, int]], epoch: int
) -> dict[str, dict[int, int]]:
    """Return the tasks with their assignment epochs. The epoch of new tasks is `epoch`."""
    return {
        each: {index: held.get(each, {}).get(index, epoch) for index in sorted(partitions)}
        for each, partitions in tasks.items()
    }
