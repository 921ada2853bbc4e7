"""The assignor `sticky` of Streams groups.

Each member may have a limited number of tasks, so that all members have about the same number. A
task stays with its member while this member is below the limit. Otherwise an active task goes to a
member that had it as a standby task, or has reported an offset of it, because that member has the
state. If there is none, it goes
to the process with the lowest load, which is the number of tasks per member. Standby tasks go to
processes that do not have the task.

The result is the same as from Apache Kafka's `StickyTaskAssignor`, including the choice between
equal candidates, which depends on the order of Java's hash tables and priority queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.core.group.streams.java_queue import JavaPriorityQueue
from odradek.core.group.streams.tasks import EMPTY, Tasks, TaskSet
from odradek.model.java_hash import java_hash
from odradek.model.java_order import JavaHashTable, java_hash_order

NAME: Final = "sticky"

Task = tuple[str, int]
"""Subtopology id and partition."""


NO_OFFSETS: Final[Mapping[Task, int]] = {}


class MemberSpec(NamedTuple):
    """A member: its process, its present tasks, and how far the state of tasks is that it has.

    `offsets` has the sum of the offsets of a task's changelogs, by task.
    """

    process_id: str
    tasks: Tasks
    offsets: Mapping[Task, int] = NO_OFFSETS


class SubtopologySpec(NamedTuple):
    """A subtopology: its number of tasks, and whether it has state."""

    task_count: int
    is_stateful: bool


class _Process:
    """The members of a process and their tasks in the new assignment."""

    __slots__ = ("_by_load", "_count", "active", "load", "standby", "task_counts", "tasks")

    def __init__(self) -> None:
        self.task_counts: dict[str, int] = {}
        """Number of tasks of each member."""
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self.tasks: set[Task] = set()
        self._count = 0
        self.load = 0.0
        """Number of tasks per member."""
        self._by_load: JavaPriorityQueue[str] | None = None

    def add_member(self, member_id: str) -> None:
        self.task_counts[member_id] = 0

    def add(self, member_id: str, task: Task, is_active: bool) -> int:
        """Give a task to a member. Return the number of its tasks."""
        self._by_load = None
        return self._add(member_id, task, is_active)

    def _add(self, member_id: str, task: Task, is_active: bool) -> int:
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.tasks.add(task)
        count = self.task_counts[member_id] + 1
        self.task_counts[member_id] = count
        self._count += 1
        self.load = self._count / len(self.task_counts)
        return count

    def add_to_least_loaded(self, task: Task, is_active: bool) -> int:
        """Give a task to the member with the fewest tasks. Return the number of its tasks."""
        if len(self.task_counts) == 1:
            return self._add(next(iter(self.task_counts)), task, is_active)
        if self._by_load is None:
            members = java_hash_order(self.task_counts)
            self._by_load = JavaPriorityQueue(self.task_counts.__getitem__, members)
        member_id = self._by_load.poll()
        assert member_id is not None
        count = self._add(member_id, task, is_active)
        self._by_load.add(member_id)
        return count


class _Quota:
    """How many tasks each member may have so that all members have about the same number."""

    __slots__ = ("_members", "_tasks", "limit")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.limit = _per_member(tasks, members)

    def count(self, tasks_of_member: int) -> None:
        """Note the number of tasks of a member. If it is full, share the rest among the others."""
        if tasks_of_member == self.limit:
            self._members -= 1
            self._tasks -= tasks_of_member
            self.limit = _per_member(self._tasks, self._members)


def _per_member(tasks: int, members: int) -> int:
    """Return the number of tasks per member, rounded up. Java rounds towards zero."""
    if members == 0:
        return 0
    quotient = int(tasks / members)
    return quotient + 1 if tasks - quotient * members > 0 else quotient


def assign(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, SubtopologySpec],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """Return the new tasks of each member.

    The order of the members decides between equal candidates. Apache Kafka's order is the order of
    a `HashMap`.
    """
    return _Assignment(members, subtopologies, standby_replicas).run()


class _Assignment:
    """One run."""

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        standby_replicas: int,
    ) -> None:
        self._members = members
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        active = sum(each.task_count for each in subtopologies.values())
        stateful = sum(each.task_count for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._last_active: dict[Task, str] = {}
        for member_id, spec in members.items():
            self._processes.setdefault(spec.process_id, _Process()).add_member(member_id)
            for task in _each(spec.tasks.active):
                self._last_active[task] = member_id
        self._with_state = _members_with_state(members)

    def run(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas > 0:
            self._assign_standby()
        result = dict.fromkeys(self._members, EMPTY)
        for process in self._processes.values():
            for member_id in process.task_counts:
                active = _task_set(process.active.get(member_id, ()))
                standby = _task_set(process.standby.get(member_id, ()))
                result[member_id] = Tasks(active, standby)
        return result

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _tasks(self, *, only_stateful: bool) -> list[Task]:
        return [
            (subtopology_id, partition)
            for subtopology_id, each in self._subtopologies.items()
            if each.is_stateful or not only_stateful
            for partition in range(each.task_count)
        ]

    def _by_load(self) -> JavaPriorityQueue[_Process]:
        order = JavaHashTable[str](java_hash, len(self._members))
        for spec in self._members.values():
            order.compute(spec.process_id)
        return JavaPriorityQueue(lambda each: each.load, (self._processes[each] for each in order))

    # -- active tasks ---------------------------------------------------------------------------

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(only_stateful=False), key=lambda each: (each[1], each[0]))
        tasks = [each for each in tasks if not self._keep(self._last_active.get(each), each)]
        tasks = [each for each in tasks if not self._keep(self._former_standby(each), each)]
        processes = self._by_load()
        for task in sorted(tasks):
            process = processes.poll()
            assert process is not None, "a group has a member when tasks are assigned"
            self._count_active(process.add_to_least_loaded(task, is_active=True))
            processes.add(process)

    def _keep(self, member_id: str | None, task: Task) -> bool:
        """Give an active task to a member if it is below its limit. Return whether it was given."""
        if member_id is None:
            return False
        process = self._process_of(member_id)
        if process.task_counts[member_id] >= self._active_quota.limit:
            return False
        self._count_active(process.add(member_id, task, is_active=True))
        return True

    def _count_active(self, tasks_of_member: int) -> None:
        self._active_quota.count(tasks_of_member)
        self._quota.count(tasks_of_member)

    def _former_standby(self, task: Task) -> str | None:
        return self._least_loaded(self._with_state.get(task, ()), None)

    def _least_loaded(self, member_ids: Iterable[str], task: Task | None) -> str | None:
        """Return the member with the lowest load, compared by its process and then by itself.

        If `task` is given, members are skipped if their process has the task. Among members with
        equal loads the first one is returned.
        """
        best: str | None = None
        process_load = member_load = 0.0
        for member_id in member_ids:
            process = self._process_of(member_id)
            if task is not None and task in process.tasks:
                continue
            count = process.task_counts[member_id]
            if best is None or (process.load < process_load and count < member_load):
                best, process_load, member_load = member_id, process.load, count
        return best

    # -- standby tasks --------------------------------------------------------------------------

    def _assign_standby(self) -> None:
        tasks = self._tasks(only_stateful=True)
        tasks.sort(key=lambda each: (each[1], each[0]), reverse=True)
        rest: list[tuple[Task, int]] = []
        for task in tasks:
            for placed in range(self._replicas):
                if not self._keep_standby(task):
                    rest.append((task, self._replicas - placed))
                    break
        rest.sort(key=lambda each: each[0], reverse=True)
        processes = self._by_load()
        for task, count in rest:
            for _ in range(count):
                if not self._add_standby(processes, task):
                    break  # every process has the task

    def _keep_standby(self, task: Task) -> bool:
        """Give a standby task to a member that had the task. Return False if none has room."""
        member_id = self._last_active.get(task)
        if (
            member_id is not None
            and task not in self._process_of(member_id).tasks
            and self._keep_standby_at(member_id, task)
        ):
            return True
        member_id = self._least_loaded(self._with_state.get(task, ()), task)
        return member_id is not None and self._keep_standby_at(member_id, task)

    def _keep_standby_at(self, member_id: str, task: Task) -> bool:
        process = self._process_of(member_id)
        if process.task_counts[member_id] >= self._quota.limit:
            return False
        self._quota.count(process.add(member_id, task, is_active=False))
        return True

    def _add_standby(self, processes: JavaPriorityQueue[_Process], task: Task) -> bool:
        """Give a standby task to the least loaded process without the task. Return whether."""
        passed: list[_Process] = []
        process = processes.poll()
        while process is not None and task in process.tasks:
            passed.append(process)
            process = processes.poll()
        if process is not None:
            self._quota.count(process.add_to_least_loaded(task, is_active=False))
            processes.add(process)
        for each in reversed(passed):
            processes.add(each)
        return process is not None


def _members_with_state(members: Mapping[str, MemberSpec]) -> dict[Task, list[str]]:
    """Return the members that have the state of each task, the best one first.

    Members that have a standby task come before others that have reported an offset of the task, and
    then larger offsets before smaller ones.
    """
    found: dict[Task, list[tuple[bool, int, str]]] = {}
    for member_id, spec in members.items():
        standby = set(_each(spec.tasks.standby))
        for task in standby:
            rank = False, -spec.offsets.get(task, 0), member_id
            found.setdefault(task, []).append(rank)
        for task, offset in spec.offsets.items():
            if task not in standby:
                found.setdefault(task, []).append((True, -offset, member_id))
    return {
        task: [member_id for *_, member_id in sorted(ranks, key=lambda each: each[:2])]
        for task, ranks in found.items()
    }


def _each(tasks: TaskSet) -> Iterable[Task]:
    return (
        (subtopology_id, partition)
        for subtopology_id, partitions in tasks.items()
        for partition in partitions
    )


def _task_set(tasks: Iterable[Task]) -> TaskSet:
    found: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        found.setdefault(subtopology_id, set()).add(partition)
    return {each: frozenset(partitions) for each, partitions in found.items()}
