"""Sets of tasks. A task is a partition of a subtopology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol

TaskSet = Mapping[str, AbstractSet[int]]
"""Subtopology id -> partitions. No set is empty, except in a record of another coordinator."""
HeldTasks = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the epoch in which the task was assigned to the member."""

NO_TASKS: Final[TaskSet] = {}
NOTHING_HELD: Final[HeldTasks] = {}


class TaskIds(Protocol):
    """The tasks of a subtopology in a request or a record."""

    subtopology_id: str
    partitions: list[int]


class Tasks(NamedTuple):
    """Tasks by role."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def has_any(self, other: MemberTasks) -> bool:
        """Return whether these tasks contain one of the tasks of `other` in the same role."""
        return (
            _overlap(self.active, other.active)
            or _overlap(self.standby, other.standby)
            or _overlap(self.warmup, other.warmup)
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)


class MemberTasks(NamedTuple):
    """The tasks of a member by role. Active tasks have their assignment epochs."""

    active: HeldTasks = NOTHING_HELD
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)


EMPTY: Final = Tasks()
NONE_HELD: Final = MemberTasks()


def task_set(tasks: Iterable[TaskIds]) -> TaskSet:
    """Return the tasks of a request or a record."""
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


def contained(tasks: Iterable[TaskIds] | None, held: Mapping[str, Iterable[int]]) -> bool:
    """Return whether `held` contains all tasks; False if the tasks are unknown (None)."""
    if tasks is None:
        return False
    for each in tasks:
        partitions = held.get(each.subtopology_id)
        if partitions is None or not set(each.partitions) <= set(partitions):
            return False
    return True


def _overlap(tasks: TaskSet, others: Mapping[str, Iterable[int]]) -> bool:
    return any(
        not tasks.get(subtopology, frozenset()).isdisjoint(partitions)
        for subtopology, partitions in others.items()
    )
