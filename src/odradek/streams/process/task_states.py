"""The tasks of a process that do not run: those whose stores are being read, and stores without a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.making import make_store
from odradek.core.streams.task import Task
from odradek.core.streams.topology.definition import Subtopology, Topology
from odradek.model.topic_partition import TopicPartition
from odradek.streams.process.changelogs import Changelog

TaskId = tuple[int, int]
"""The number of a subtopology, and a partition."""


class State:
    """The content of a task's stores, and up to where their changelogs are in it."""

    def __init__(
        self, stores: Mapping[str, Store], positions: Mapping[TopicPartition, int]
    ) -> None:
        self.stores = dict(stores)
        self.positions = dict(positions)


class Standby:
    """A task whose changelogs are read, so that it can begin at once."""

    def __init__(self, stores: Mapping[str, Store], changelogs: Iterable[Changelog]) -> None:
        self.stores = dict(stores)
        self.changelogs = list(changelogs)

    def state(self) -> State:
        """Return what has been read."""
        return State(self.stores, {each.place: each.position for each in self.changelogs})


class Restoring:
    """A task that begins when its changelogs have been read, and its committed offsets are known."""

    def __init__(self, task: Task, changelogs: Iterable[Changelog], began_ms: int) -> None:
        self.task = task
        self.changelogs = list(changelogs)
        self.began_ms = began_ms

    @property
    def is_read(self) -> bool:
        """Whether all changelogs have been read."""
        return all(each.is_read for each in self.changelogs)

    def state(self) -> State:
        """Return what has been read."""
        return State(self.task.stores, {each.place: each.position for each in self.changelogs})


class WarmStates:
    """The states of tasks that have left this process. They may return (`state.cleanup.delay.ms`)."""

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._states: dict[TaskId, tuple[State, int]] = {}

    def keep(self, task_id: TaskId, state: State, now_ms: int) -> None:
        """Keep a state."""
        if state.stores:
            self._states[task_id] = state, now_ms

    def take(self, task_id: TaskId) -> State | None:
        """Return the state of a task, if it is here. It is not kept any more."""
        found = self._states.pop(task_id, None)
        return None if found is None else found[0]

    def clean(self, now_ms: int) -> None:
        """Forget states that nobody has wanted for long."""
        for task_id, (_, kept_ms) in list(self._states.items()):
            if now_ms - kept_ms >= self._delay_ms:
                del self._states[task_id]

    def clear(self) -> None:
        """Forget all states."""
        self._states.clear()


def empty_stores(topology: Topology, subtopology: Subtopology, partition: int) -> dict[str, Store]:
    """Return new stores for a task that does not run."""
    context = TaskContext(topology.application_id, subtopology.number, partition)
    return {
        name: make_store(
            topology.stores[name], context, topology.changelog_of(topology.stores[name]), None
        )
        for name in topology.store_names(subtopology.nodes)
        if name not in topology.global_stores
    }
