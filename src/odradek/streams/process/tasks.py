"""The tasks of a worker: assigned, restored beside those that run, started, and given up.

    assigned --> restoring --> running --> warm (the state is kept for a while)
                    ^                        |
    standby --------+<-----------------------+

A task begins with the state that is here, of a standby task or from when it ran here before, and reads only what
its changelogs have beyond that. Its partitions are paused until it runs.

A standby task reads changelogs of its own only: if the topic of a table serves as changelog
(`reuse.ktable.source.topics`), it is read when the task begins.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.client.consuming.consumer import Consumer
from odradek.client.errors import ClientError, OffsetOutOfRangeError, SomeFailedError
from odradek.client.offsets import EARLIEST, LATEST
from odradek.core.streams.stores.base import Store
from odradek.core.streams.task import Task, TaskSettings
from odradek.core.streams.topology.definition import Subtopology, Topology
from odradek.model.topic_partition import TopicPartition
from odradek.streams.process.changelogs import Changelog, ChangelogReader
from odradek.streams.process.layout import Layout
from odradek.streams.process.positions import decode
from odradek.streams.process.settings import ADMIN, RESTORE_CONSUMER, WorkerSettings
from odradek.streams.process.task_states import (
    Restoring,
    Standby,
    State,
    TaskId,
    WarmStates,
    empty_stores,
)

log = logging.getLogger(__name__)

LOOKUP_PATIENCE_MS = 60_000
"""For so long the ends of a changelog may be unknown, for instance because its topic is new."""


class Progress(NamedTuple):
    """The sums over the changelogs of a task: up to where they have been read, and the ends."""

    position: int
    end: int | None
    """None: not known yet."""


class Tasks:
    """The tasks of a worker, and the states of others. The worker's thread changes them, with `lock`."""

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        settings: WorkerSettings,
        global_stores: dict[str, Store],
        count: Callable[[str], int],
    ) -> None:
        """`count` returns the number of partitions of a topic."""
        self.lock = threading.Lock()
        """Protects all stores: queries of other threads need it."""
        self.running: dict[TaskId, Task] = {}
        self.restoring: dict[TaskId, Restoring] = {}
        self.standby: dict[TaskId, Standby] = {}
        self._warm = WarmStates(settings.state_cleanup_delay_ms)
        self._topology = topology
        self._by_number = {each.number: each for each in layout.subtopologies}
        self._settings = settings
        self._task_settings: TaskSettings = settings.tasks._replace(partition_count=count)
        self._global_stores = global_stores
        self._reader = ChangelogReader(settings.clients[RESTORE_CONSUMER])
        self._without_limits: dict[TaskId, tuple[State, int]] = {}
        """Tasks whose changelogs' ends are not known yet, their state, and since when."""

    @property
    def active(self) -> set[TaskId]:
        """The tasks that run, or will run."""
        return {*self.running, *self.restoring, *self._without_limits}

    @property
    def reads(self) -> bool:
        """Whether tasks wait for changelogs."""
        return bool(self.restoring or self._without_limits)

    # -- what is assigned -----------------------------------------------------------------------

    def add(self, task_ids: Iterable[TaskId], now_ms: int) -> None:
        """Begin with tasks, which run later."""
        for task_id in sorted(task_ids):
            standby = self.standby.pop(task_id, None)
            state = self._warm.take(task_id)
            if standby is not None:
                self._reader.remove(standby.changelogs)
                state = standby.state()
            if state is None:
                state = State({}, {})
            self._without_limits[task_id] = state, now_ms
        self._begin(now_ms)

    def stand_by(self, task_ids: set[TaskId], now_ms: int) -> None:
        """Read the changelogs of these tasks, and of no others that do not run."""
        for task_id in self.standby.keys() - task_ids:
            gone = self.standby.pop(task_id)
            self._reader.remove(gone.changelogs)
            self._warm.keep(task_id, gone.state(), now_ms)
        new = task_ids - self.standby.keys() - self.active
        if not new:
            return
        firsts = self._look_up(
            {place for each in new for place in self._own_places(each)}, EARLIEST
        )
        for task_id in sorted(new):
            number, partition = task_id
            subtopology = self._by_number[number]
            state = self._warm.take(task_id) or State({}, {})
            stores = {**empty_stores(self._topology, subtopology, partition), **state.stores}
            changelogs = []
            for place in self._own_places(task_id):
                store = stores[subtopology.changelogs[place.topic].name]
                first = firsts.get(place, 0)
                position = state.positions.get(place, first)
                if position < first:  # what was between is gone
                    stores = empty_stores(self._topology, subtopology, partition)
                    store, position = stores[store.name], first
                changelogs.append(Changelog(place, store, position))
            self.standby[task_id] = Standby(stores, changelogs)
            self._reader.add(changelogs)

    def give_up(
        self, task_ids: Iterable[TaskId], now_ms: int, committed: Mapping[Any, int]
    ) -> None:
        """End tasks. All that they have done is committed; `committed` has the offsets."""
        with self.lock:
            gone = {each: self.running.pop(each) for each in task_ids if each in self.running}
        places = {place for each in gone for place in self._places(each)}
        ends = self._look_up(places, LATEST) if places else {}
        for task_id, task in gone.items():
            task.close()
            positions = {}
            for place in self._places(task_id):
                end = committed.get(place) if self._is_source(task_id, place) else ends.get(place)
                if end is not None:
                    positions[place] = end
            if len(positions) == len(self._places(task_id)):
                self._warm.keep(task_id, State(task.stores, positions), now_ms)
        for task_id in task_ids:
            restoring = self.restoring.pop(task_id, None)
            if restoring is not None:
                self._reader.remove(restoring.changelogs)
                self._warm.keep(task_id, restoring.state(), now_ms)
            waiting = self._without_limits.pop(task_id, None)
            if waiting is not None:
                self._warm.keep(task_id, waiting[0], now_ms)

    def lose(self, task_ids: Iterable[TaskId]) -> None:
        """Forget tasks and their states: what they have done is not committed."""
        for task_id in task_ids:
            with self.lock:
                task = self.running.pop(task_id, None)
            if task is not None:
                task.close()
            restoring = self.restoring.pop(task_id, None)
            if restoring is not None:
                self._reader.remove(restoring.changelogs)
            self._without_limits.pop(task_id, None)

    # -- what is read ---------------------------------------------------------------------------

    def advance(self, consumer: Consumer, timeout: float, now_ms: int) -> list[TaskId]:
        """Read changelogs, and start the tasks that can begin. Return those that were started.

        `consumer` reads the partitions of the tasks, and `timeout` is how long to wait for a changelog.
        """
        self._begin(now_ms)
        try:
            found = self._reader.read(timeout) if len(self._reader) else []
        except OffsetOutOfRangeError as error:
            self._begin_again(error.topic_partition, now_ms)
            return []
        if found:
            with self.lock:
                for changelog, records, next_offset in found:
                    changelog.apply(records, next_offset)
        self._warm.clean(now_ms)
        return [
            task_id
            for task_id, each in list(self.restoring.items())
            if self._is_startable(each, consumer) and self._start(task_id, each, consumer, now_ms)
        ]

    def _begin(self, now_ms: int) -> None:
        """Begin to read for tasks whose changelogs' ends can be found out."""
        waiting = self._without_limits
        if not waiting:
            return
        own = {place for each in waiting for place in self._own_places(each)}
        places = {place for each in waiting for place in self._places(each)}
        firsts = self._look_up(places, EARLIEST)
        lasts = self._look_up(own, LATEST)
        for task_id, (state, since_ms) in list(waiting.items()):
            if any(place not in firsts for place in self._places(task_id)) or any(
                place not in lasts for place in self._own_places(task_id)
            ):
                if now_ms - since_ms > LOOKUP_PATIENCE_MS:
                    raise ClientError(
                        f"the changelogs of task {task_id[0]}_{task_id[1]} cannot be read"
                    )
                continue
            del waiting[task_id]
            self._restore(task_id, state, firsts, lasts, now_ms)

    def _restore(
        self,
        task_id: TaskId,
        state: State,
        firsts: Mapping[TopicPartition, int],
        lasts: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> None:
        number, partition = task_id
        subtopology = self._by_number[number]
        positions = state.positions
        is_usable = all(
            firsts[place] <= positions[place] <= lasts.get(place, positions[place])
            for place in self._places(task_id)
            if place in positions
        )
        kept = state.stores if is_usable else {}
        with self.lock:
            task = Task(
                self._topology,
                subtopology.nodes,
                number,
                partition,
                self._task_settings,
                self._global_stores,
                kept,
            )
        changelogs = []
        for place in self._places(task_id):
            store = task.stores[subtopology.changelogs[place.topic].name]
            position = positions.get(place, firsts[place]) if kept else firsts[place]
            changelog = Changelog(place, store, position)
            changelog.end_at(lasts.get(place))
            changelogs.append(changelog)
        self.restoring[task_id] = Restoring(task, changelogs, now_ms)
        self._reader.add([each for each in changelogs if each.limit is not None])

    def _is_startable(self, restoring: Restoring, consumer: Consumer) -> bool:
        """Whether a task can begin. If a table's topic is its changelog, the committed offset is the limit."""
        positions = consumer.positions
        if any(TopicPartition(*each) not in positions for each in restoring.task.partitions()):
            return False
        open_ended = [each for each in restoring.changelogs if each.limit is None]
        if open_ended:
            places = [each.place for each in open_ended]
            committed = consumer.committed(*places)
            for each in open_ended:
                at = committed.get(each.place)
                each.end_at(max(each.position, 0 if at is None else at.offset))
            self._reader.add(open_ended)
        return restoring.is_read

    def _start(
        self, task_id: TaskId, restoring: Restoring, consumer: Consumer, now_ms: int
    ) -> bool:
        task = restoring.task
        committed = consumer.committed(*(TopicPartition(*each) for each in task.partitions()))
        for place, at in committed.items():
            partition_time, emitted = decode(at.metadata)
            task.set_partition_time(place.topic, place.partition, partition_time)
            task.context.metadata.update(emitted)
        self._reader.remove(restoring.changelogs)
        count = sum(each.count for each in restoring.changelogs)
        if count:
            seconds = (now_ms - restoring.began_ms) / 1000
            log.info("task %d_%d: %d records restored in %.1f s", *task_id, count, seconds)
        with self.lock:
            del self.restoring[task_id]
            task.start(now_ms)
            self.running[task_id] = task
        return True

    def _begin_again(self, place: TopicPartition, now_ms: int) -> None:
        """Read the changelogs of a task from the beginning: something of one is gone."""
        log.warning("records of %s are gone: the stores of its task are read again", place)
        for task_id, restoring in list(self.restoring.items()):
            if any(each.place == place for each in restoring.changelogs):
                self.lose([task_id])
                self._without_limits[task_id] = State({}, {}), now_ms
        for task_id, standby in list(self.standby.items()):
            if any(each.place == place for each in standby.changelogs):
                self._reader.remove(standby.changelogs)
                del self.standby[task_id]
                self.stand_by({*self.standby, task_id}, now_ms)

    # -- changelogs -----------------------------------------------------------------------------

    def _places(self, task_id: TaskId) -> list[TopicPartition]:
        number, partition = task_id
        return [TopicPartition(topic, partition) for topic in self._by_number[number].changelogs]

    def _own_places(self, task_id: TaskId) -> list[TopicPartition]:
        """Return the changelogs that are no topics of tables."""
        return [each for each in self._places(task_id) if not self._is_source(task_id, each)]

    def _is_source(self, task_id: TaskId, place: TopicPartition) -> bool:
        subtopology: Subtopology = self._by_number[task_id[0]]
        return subtopology.changelogs[place.topic].name in self._topology.source_changelogs

    def _look_up(self, places: set[TopicPartition], time: int) -> dict[TopicPartition, int]:
        """Return offsets of changelogs. Those that are not known yet are missing.

        The ends are those behind transactions that have not ended: the offsets of a transaction may count
        as committed before its records in a changelog do.
        """
        if not places:
            return {}
        try:
            with Admin(self._settings.clients[ADMIN]) as admin:
                found = admin.list_offsets(dict.fromkeys(places, time))
        except SomeFailedError as error:
            if not all(isinstance(one, ClientError) and one.retriable for one in error.exceptions):
                raise
            found = error.results
        return {place: at.offset for place, at in found.items()}

    # -- what others want to know ---------------------------------------------------------------

    def offsets(self) -> dict[TaskId, Progress]:
        """Return how far the changelogs of tasks have been read that do not run."""
        found: dict[TaskId, Progress] = {}
        reading = {each: task.changelogs for each, task in self.standby.items()}
        reading.update((each, task.changelogs) for each, task in self.restoring.items())
        for task_id, changelogs in reading.items():
            ends = [self._reader.end_of(each) for each in changelogs]
            total = None if None in ends else sum(each or 0 for each in ends)
            found[task_id] = Progress(sum(each.position for each in changelogs), total)
        return found

    def close(self) -> None:
        """Close the consumer of changelogs."""
        self._reader.close()
