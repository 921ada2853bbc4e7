"""The next step of a member towards its target assignment (Kafka's `CurrentAssignmentBuilder`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import MemberState, StreamsMember
from odradek.core.group.streams.tasks import NONE_HELD, MemberTasks, Tasks
from odradek.model.errors import ApiError, ErrorCode

Task = tuple[str, int]
"""A subtopology and a partition."""
IsBlocked = Callable[[Task], bool]


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

        A task of the member that changes its role is not revoked: an active task becomes a standby
        task at once, and a copy stays until it is free to become active. If the member must revoke
        tasks, its next epoch is `member_epoch`.
        """
        member, target = self._member, self._target
        held, epoch = member.assigned, self._target_epoch
        active = _Difference(held.active, target.active, self._is_active_blocked)
        standby = _Difference(held.standby, target.standby, self._is_standby_blocked)
        warmup = _Difference(held.warmup, target.warmup, self._is_warmup_blocked)
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        standby.grant(held.active)
        standby.gone.difference_update(warmup.grant(held.standby))
        warmup.gone.difference_update(standby.grant(held.warmup))
        wanted = _flat(target.active)
        standby.gone.difference_update(wanted)
        warmup.gone.difference_update(wanted)
        gone = MemberTasks(
            _with_epochs(active.gone, held.active, epoch),
            _sets(standby.gone),
            _sets(warmup.gone),
        )
        must_revoke = not gone.is_empty and self._owns_any(gone)
        left = wanted if must_revoke else wanted - active.free
        standby.kept.update(_flat(held.standby) & left)
        warmup.kept.update(_flat(held.warmup) & left)
        if must_revoke:
            return member.moved_to(member_epoch)._replace(
                state=MemberState.UNREVOKED_TASKS,
                assigned=MemberTasks(
                    _with_epochs(active.kept, held.active, epoch),
                    _sets(standby.kept),
                    _sets(warmup.kept),
                ),
                pending_revocation=gone,
            )
        return member.moved_to(epoch)._replace(
            state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
            assigned=MemberTasks(
                _with_epochs(active.kept | active.free, held.active, epoch),
                _sets(standby.kept | standby.free),
                _sets(warmup.kept | warmup.free),
            ),
            pending_revocation=NONE_HELD,
        )

    def _is_active_blocked(self, task: Task) -> bool:
        """Return whether any process has the active task, or another member here has a copy."""
        group, held = self._group, self._member.assigned
        return (
            group.active_owner(*task) is not None
            or self._is_elsewhere(group.standby_owners(*task), held.standby, task)
            or self._is_elsewhere(group.warmup_owners(*task), held.warmup, task)
        )

    def _is_standby_blocked(self, task: Task) -> bool:
        """Return whether another member of this process has the task, or it is a standby task here."""
        group, process, held = self._group, self._member.process_id, self._member.assigned
        is_active = group.active_owner(*task) == process and not _has(held.active, task)
        return (
            is_active
            or process in group.standby_owners(*task)
            or self._is_elsewhere(group.warmup_owners(*task), held.warmup, task)
        )

    def _is_warmup_blocked(self, task: Task) -> bool:
        """Return whether the task is active or a warm-up task here, or another member has a copy."""
        group, process, held = self._group, self._member.process_id, self._member.assigned
        return (
            group.active_owner(*task) == process
            or self._is_elsewhere(group.standby_owners(*task), held.standby, task)
            or process in group.warmup_owners(*task)
        )

    def _is_elsewhere(
        self, owners: AbstractSet[str], held: Mapping[str, Iterable[int]], task: Task
    ) -> bool:
        """Return whether another member of this process has a copy."""
        return self._member.process_id in owners and not _has(held, task)


class _Difference:
    """What changes between the present tasks and the target tasks of a role."""

    def __init__(
        self,
        present: Mapping[str, Iterable[int]],
        target: Mapping[str, Iterable[int]],
        is_blocked: IsBlocked,
    ) -> None:
        had, wanted = _flat(present), _flat(target)
        self.kept = had & wanted
        self.gone = had - wanted
        self.free = {task for task in wanted - self.kept if not is_blocked(task)}
        self.is_waiting = len(self.kept) + len(self.free) < len(wanted)
        """Whether another member must release a task before this member has its target."""

    def grant(self, held: Mapping[str, Iterable[int]]) -> set[Task]:
        """Give the member at once those free tasks that it has in another role; return them."""
        granted = self.free & _flat(held)
        self.free -= granted
        self.kept |= granted
        return granted


def _flat(tasks: Mapping[str, Iterable[int]]) -> set[Task]:
    return {(each, index) for each, partitions in tasks.items() for index in partitions}


def _has(held: Mapping[str, Iterable[int]], task: Task) -> bool:
    return task[1] in held.get(task[0], ())


def _sets(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for subtopology, index in tasks:
        found.setdefault(subtopology, set()).add(index)
    return {each: frozenset(indexes) for each, indexes in found.items()}


def _with_epochs(
    tasks: Iterable[Task], held: Mapping[str, Mapping[int, int]], epoch: int
) -> dict[str, dict[int, int]]:
    """Return the tasks with their assignment epochs. The epoch of new tasks is `epoch`."""
    found: dict[str, dict[int, int]] = {}
    for subtopology, index in sorted(tasks):
        known = held.get(subtopology, {}).get(index, epoch)
        found.setdefault(subtopology, {})[index] = known
    return found
