"""Runs Streams tasks in a worker of Spark.

A micro-batch calls `RunningTask.run` for each of its tasks. It reads at least up to the given ends, lets
the core process what was read, and commits in one transaction: outputs, changes of stores, and the
offsets of the input. A long micro-batch commits several times.

The transactional id is that of the task (`word-count-0_1`). So an attempt of a task fences an earlier one
that may still run somewhere, and Spark may repeat tasks.

Members of the group do not know the query. So a commit looks for members after its offsets are pending
and before the transaction ends. If there are members, they have the tasks, and the transaction is
aborted. A member that comes later waits for pending offsets when it asks where to begin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.group_metadata import GroupMetadata
from odradek.client.producer import Producer
from odradek.core.streams.model.errors import StreamsError
from odradek.core.streams.model.records import Produced
from odradek.core.streams.partition_group import NEVER_WAIT
from odradek.core.streams.stores.base import Store
from odradek.core.streams.task import Task
from odradek.core.streams.topology.definition import Topology
from odradek.model.topic_partition import TopicPartition
from odradek.spark import resolution
from odradek.streams.on_spark.members import check_members
from odradek.streams.process.positions import decode
from odradek.streams.process.records import committed_offset, consumed, now_ms, quietly, send
from odradek.streams.process.restoring import read_whole
from odradek.streams.process.settings import (
    MAIN_CONSUMER,
    PRODUCER,
    RESTORE_CONSUMER,
    WorkerSettings,
)
from odradek.streams.process.task_states import TaskId

COMMIT_SECONDS = 5
"""How often to commit in a long micro-batch, at least."""
POLL_SECONDS = 0.2
STEPS_MAX = 1000
"""How many records to process before more are read."""
BUFFERED_MAX = 10_000
"""With more records that wait, no more are read."""
SILENCE_SECONDS = 60
"""How long to wait for records that must be there."""


class Shared(Protocol):
    """What the tasks of an application share in a process."""

    topology: Topology
    settings: WorkerSettings
    cluster: Cluster

    @property
    def global_stores(self) -> dict[str, Store]:
        """The global tables."""
        ...

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of an output topic."""
        ...


class Result(NamedTuple):
    """What a task has done in a micro-batch."""

    records: int
    """The number of records that were read."""
    restored: int
    """The number of records of changelogs that were read."""
    committed: dict[str, int]
    """The committed offset of each topic."""
    worker: str = ""
    """The process that has run it."""


class RunningTask:
    """One task with its clients."""

    def __init__(self, shared: Shared, task_id: TaskId) -> None:
        self._shared = shared
        topology, settings = shared.topology, shared.settings
        number, partition = task_id
        self._subtopology = next(x for x in topology.subtopologies() if x.number == number)
        of_tasks = settings.tasks
        if of_tasks.max_idle_ms != NEVER_WAIT:  # a micro-batch has all that there is to wait for
            of_tasks = of_tasks._replace(max_idle_ms=0)
        self._task = Task(
            topology,
            self._subtopology.nodes,
            number,
            partition,
            of_tasks._replace(partition_count=shared.partition_count),
            shared.global_stores,
        )
        self._places = [TopicPartition(*each) for each in self._task.partitions()]
        self._positions: dict[TopicPartition, int] = {}
        """The next offset to read."""
        self._committed: dict[TopicPartition, int] = {}
        self._in_transaction = False
        self._group = GroupMetadata(topology.application_id)
        self._consumer = Consumer(
            settings.clients[MAIN_CONSUMER],
            group_id=topology.application_id,
            enable_auto_commit=False,
        )
        name = f"{topology.application_id}-{number}_{partition}"
        self._producer = Producer(
            {"linger.ms": 5, **settings.clients[PRODUCER], "transactional.id": name}
        )

    def start(self) -> int:
        """Fence earlier attempts, find where to begin, and restore the stores.

        Returns how many records were restored.
        """
        self._producer.init_transactions()
        committed = self._consumer.committed(*self._places)
        self._committed = {place: at.offset for place, at in committed.items()}
        for place, at in committed.items():
            partition_time, emitted = decode(at.metadata)
            self._task.set_partition_time(place.topic, place.partition, partition_time)
            self._task.context.metadata.update(emitted)
        restored = self._restore()
        self._consumer.assign(self._places)
        self._positions = {place: self._consumer.position(place) for place in self._places}
        self._task.start(now_ms())
        return restored

    def _restore(self) -> int:
        """Read the changelogs into the stores."""
        shared = self._shared
        partition = self._task.context.partition
        stores: dict[str, Store] = {}
        limits: dict[TopicPartition, int] = {}
        for changelog, definition in self._subtopology.changelogs.items():
            stores[changelog] = self._task.stores[definition.name]
            if definition.name in shared.topology.source_changelogs:
                place = TopicPartition(changelog, partition)
                limits[place] = self._committed.get(place, 0)
        places = [TopicPartition(changelog, partition) for changelog in stores]
        # Behind transactions that have not ended: the offsets of one may count as committed before
        # its records in a changelog do.
        ends = resolution.ends(shared.cluster, places, read_committed=False)
        count = 0

        def apply(record: Any) -> None:
            nonlocal count
            count += 1
            stores[record.topic].restore(record.key, record.value, record.timestamp, record.headers)

        reading = shared.settings.clients[RESTORE_CONSUMER]
        wanted = {each: min(ends[each], limits.get(each, ends[each])) for each in places}
        read_whole(reading, wanted, apply, lambda: False)
        return count

    def run(self, ends: Mapping[str, int]) -> Result:
        """Process all records up to the ends, and commit.

        Raises:
            StreamsError: a record cannot be processed, or the group has members.
            ClientError: the cluster refuses, or cannot be reached.
        """
        task, count = self._task, 0
        began = heard = time.monotonic()
        self._note_lags(ends)
        while not self._is_at(ends) or task.is_ready(now_ms()):
            if task.buffered <= BUFFERED_MAX and not self._is_at(ends):
                found = self._read(ends)
                count += found
            before = task.buffered
            self._process()
            now = time.monotonic()
            if before:
                heard = now
            elif now - heard > SILENCE_SECONDS:
                raise StreamsError(
                    f"task {task.context.task_id} gets no records up to {dict(ends)}; it is at "
                    f"{self._committed_offsets()}. Were topics deleted and created again?"
                )
            if task.context.commit_requested or now - began > COMMIT_SECONDS:
                self._commit()
                began = now
        self._commit()
        return Result(count, 0, self._committed_offsets())

    def _committed_offsets(self) -> dict[str, int]:
        return {place.topic: offset for place, offset in self._committed.items()}

    def _is_at(self, ends: Mapping[str, int]) -> bool:
        return all(self._positions[each] >= ends[each.topic] for each in self._places)

    def _read(self, ends: Mapping[str, int]) -> int:
        """Pass one batch to the task. Return how many records it has."""
        batch = self._consumer.poll(0 if self._task.is_ready(now_ms()) else POLL_SECONDS)
        if batch is None:
            for each in self._places:  # behind the last record may be markers of transactions only
                self._positions[each] = max(self._positions[each], self._consumer.position(each))
            self._note_lags(ends)
            return 0
        self._task.add(batch.topic, batch.partition, map(consumed, batch.records()))
        self._positions[batch.topic_partition] = batch.next_offset
        self._note_lags(ends)
        return len(batch)

    def _note_lags(self, ends: Mapping[str, int]) -> None:
        for each in self._places:
            has_all = self._positions[each] >= ends[each.topic]
            self._task.set_lag(each.topic, each.partition, 0 if has_all else None)

    def _process(self) -> None:
        task = self._task
        for _ in range(STEPS_MAX):
            now = now_ms()
            if not task.step(now):
                break
            task.punctuate_stream_time(now)
        task.punctuate_clock(now_ms())
        self._send(task.take_output())

    def _send(self, records: list[Produced]) -> None:
        if not records:
            return
        self._begin()
        send(self._producer, records, self._shared.partition_count)

    def _begin(self) -> None:
        if not self._in_transaction:
            self._producer.begin_transaction()
            self._in_transaction = True

    def _commit(self) -> None:
        """Commit what the task has done, in one transaction."""
        task = self._task
        task.commit(now_ms())
        self._send(task.take_output())
        reached = self._reached()
        if not self._in_transaction and reached == self._committed:
            return
        self._begin()
        offsets = {
            place: committed_offset(task, place, offset) for place, offset in reached.items()
        }
        self._producer.send_offsets_to_transaction(offsets, self._group)
        check_members(self._shared.cluster, self._group.group_id)
        self._producer.commit_transaction()
        self._in_transaction = False
        self._committed = reached

    def _reached(self) -> dict[TopicPartition, int]:
        """Return the next offset to process of each partition."""
        if not self._task.buffered:
            return dict(self._positions)
        done = {TopicPartition(*each): at for each, at in self._task.positions.items()}
        return self._committed | done

    def close(self) -> None:
        """Abort what is not committed, and close the clients."""
        closing: list[Callable[[], None]] = [
            self._task.close,
            self._consumer.close,
            lambda: self._producer.close(1),
        ]
        if self._in_transaction:
            closing.insert(0, self._producer.abort_transaction)
        for close in closing:
            quietly(close)
