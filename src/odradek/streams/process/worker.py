"""One thread that runs tasks: consumes, processes, produces and commits.

The worker is a member of the application's group. When tasks are assigned, their changelogs are read into their
stores (`tasks`), while the tasks that run go on. Before tasks are given up, it commits.

A commit makes durable, in this order: what the tasks have produced, changelogs included, and the offsets
up to which they have read. With `exactly_once` all of it is one transaction. Without, records that were
processed after the last commit are processed again after a failure, and stores may have counted them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from odradek.client.consuming.consumer import Consumer
from odradek.client.core.consumed_batch import Batch
from odradek.client.core.streams_member import Endpoint, EndpointPartitions
from odradek.client.errors import BrokerError, ClientError, CommitFailedError
from odradek.client.group_metadata import CommittedOffset
from odradek.core.streams.model.records import Produced
from odradek.core.streams.stores.base import Store
from odradek.core.streams.task import GlobalTask, Task
from odradek.core.streams.topology.definition import Topology
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.streams.process.layout import Layout
from odradek.streams.process.membership import (
    ApplicationEndedError,
    Membership,
    explained,
    membership,
)
from odradek.streams.process.records import (
    committed_offset,
    consumed,
    delete_read,
    now_ms,
    quietly,
    send,
)
from odradek.streams.process.restoring import read_whole
from odradek.streams.process.settings import GLOBAL_CONSUMER, WorkerSettings
from odradek.streams.process.task_states import TaskId
from odradek.streams.process.tasks import Progress, Tasks
from odradek.streams.process.topics import Topics, make_producer

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
IDLE_POLL_SECONDS = 0.02
"""How long to wait for records if a task waits for those of another partition."""
STEPS_MAX = 1000
"""How many records a task processes before others have their turn."""
BUFFERED_MAX = 1000
"""With more records of a partition that wait, it is not read (`buffered.records.per.partition`)."""

_LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Errors of a member that was removed from its group, or of a transaction that has timed out."""


class Service(Protocol):
    """Answers queries while a worker runs."""

    def start(self) -> None:
        """Begin to answer."""
        ...

    def stop(self) -> None:
        """End."""
        ...


class Worker:
    """Runs the tasks that the group assigns to this process."""

    def __init__(self, topology: Topology, settings: WorkerSettings) -> None:
        self._topology = topology
        self._settings = settings
        self._stops = False
        self._has_failed = False
        self._owned: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        """Partitions that are not read because many of their records wait."""
        self._committed_ms = 0
        self._purged_ms = now_ms()
        self._read_to: dict[TopicPartition, int] = {}
        """Up to where repartition topics were read, if it was not deleted yet."""
        self._in_transaction = False
        self._progress: dict[TaskId, Progress] = {}
        self._service: Service | None = None
        self._committed: dict[TopicPartition, int] = {}
        """The committed offsets of the partitions that are read."""
        self._global = GlobalTask(topology)
        self._topics = Topics(topology, settings)
        self._layout = self._topics.layout
        self._tasks = Tasks(
            topology, self._layout, settings, self._global.stores, self._topics.count
        )
        self._member: Membership = membership(topology, settings, self._layout)
        self._consumer: Consumer = self._member.consumer
        self._producer = make_producer(topology.application_id, settings)
        self._global_consumer = self._read_globals()

    @property
    def tasks(self) -> list[str]:
        """Return the ids of the tasks that run here."""
        return [f"{subtopology}_{partition}" for subtopology, partition in sorted(self._running)]

    @property
    def standby_tasks(self) -> list[str]:
        """Return the ids of the standby tasks."""
        standby = sorted(self._tasks.standby)
        return [f"{subtopology}_{partition}" for subtopology, partition in standby]

    @property
    def layout(self) -> Layout:
        """The subtopologies, and the numbers of their tasks."""
        return self._layout

    @property
    def states(self) -> Tasks:
        """The tasks with their stores. Whoever reads stores needs its lock."""
        return self._tasks

    @property
    def global_stores(self) -> dict[str, Store]:
        """The global tables."""
        return self._global.stores

    def hosts(self) -> Mapping[Endpoint, EndpointPartitions]:
        """Return which process with an endpoint has which partitions."""
        return self._member.hosts()

    def status(self) -> dict[str, Any]:
        """Return the tasks of this process, and how far changelogs have been read, as JSON."""
        tasks: list[dict[str, Any]] = [
            {"id": f"{number}_{partition}", "role": "active", "position": None, "end": None}
            for number, partition in sorted(self._running)
        ]
        standby = self._tasks.standby
        for (number, partition), each in sorted(self._progress.items()):
            role = "standby" if (number, partition) in standby else "restoring"
            name = f"{number}_{partition}"
            tasks.append({"id": name, "role": role, "position": each.position, "end": each.end})
        return {
            "application": self._topology.application_id,
            "member": self._consumer.group_metadata.member_id,
            "tasks": tasks,
        }

    def serve(self, service: Service) -> None:
        """Let something that answers queries run while the worker runs."""
        self._service = service

    @property
    def _running(self) -> dict[TaskId, Task]:
        return self._tasks.running

    def shut_down_application(self) -> None:
        """Ask all processes of the application to end. It needs a Streams group.

        Raises:
            TopologyError: the application is a classic group.
        """
        self._member.shut_down_application()

    def stop(self) -> None:
        """End `run` soon. May be called from a signal handler or another thread."""
        self._stops = True

    def run(self) -> None:
        """Process records until `stop` is called. At the end all is committed and closed.

        Raises:
            StreamsError: a record cannot be processed.
            ClientError: the cluster refuses, or cannot be reached for too long.
        """
        self._committed_ms = now_ms()
        try:
            if self._service is not None:
                self._service.start()
            self._join()
            while self._goes_on():
                pass
        except ClientError as error:
            self._fail()
            found = explained(error, self._settings)
            if found is error:
                raise
            raise found from error
        except BaseException:
            self._fail()
            raise
        finally:
            self.close()

    def _fail(self) -> None:
        self._has_failed = True
        self._abort()

    def _goes_on(self) -> bool:
        """Do one turn, or at the end commit and return False."""
        try:
            if self._stops:
                self._commit()
                return False
            self._turn()
        except ApplicationEndedError:
            self._commit()
            raise
        except ClientError as error:
            if not has_lost_tasks(error):
                raise
            self._begin_again(error)
        return True

    def _join(self) -> None:
        self._member.join(self._on_assigned, self._on_revoked, self._on_lost)

    def _begin_again(self, error: ClientError) -> None:
        """Join the group again after others have got the tasks, for instance after a long pause.

        What is not committed is forgotten: the tasks go on where the last commit was.
        """
        log.warning("others may have the tasks: this process joins the group again: %s", error)
        self._has_failed = True
        self._abort()
        self._renew_producer()
        quietly(self._consumer.unsubscribe)
        self._forget(list(self._owned))
        self._has_failed = False
        self._join()

    # -- one turn -------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._member.check(time.monotonic())
        self._read()
        self._advance()
        self._update_globals()
        is_busy = self._member.is_ready and self._process()
        now = now_ms()
        wants = any(task.context.commit_requested for task in self._running.values())
        if wants or now - self._committed_ms >= self._settings.commit_interval_ms:
            self._commit()
        elif not is_busy:
            self._producer.poll()

    def _read(self) -> None:
        """Pass one batch to its task."""
        now = now_ms()
        running = self._running.values()
        if self._tasks.reads or any(task.is_ready(now) for task in running):
            timeout = 0.0
        elif any(task.buffered for task in running):
            timeout = IDLE_POLL_SECONDS
        else:
            timeout = POLL_SECONDS
        batch = self._consumer.poll(timeout)
        if batch is not None:
            self._add(batch)
        self._note_lags()

    def _note_lags(self) -> None:
        """Tell tasks how many records the broker has that are not here: they wait for older ones.

        That nothing has come for a while says nothing: a record of a stream would be joined before the
        rows of its table are here.
        """
        for task in self._running.values():
            places = self._partitions(task)
            if task.buffered and len(places) > 1:
                for topic, partition in places:
                    task.set_lag(topic, partition, self._consumer.lag((topic, partition)))

    def _advance(self) -> None:
        """Read changelogs, and let the tasks begin whose stores are complete."""
        now = now_ms()
        is_idle = not any(task.is_ready(now) for task in self._running.values())
        timeout = IDLE_POLL_SECONDS if is_idle and self._tasks.reads else 0.0
        for task_id in self._tasks.advance(self._consumer, timeout, now):
            self._consumer.resume(*self._partitions(self._running[task_id]))
        self._progress = self._tasks.offsets()
        self._member.report(self._progress)

    def _add(self, batch: Batch) -> None:
        subtopology = self._layout.subtopology_of(batch.topic).number
        task = self._running.get((subtopology, batch.partition))
        if task is None:
            return
        task.add(batch.topic, batch.partition, map(consumed, batch.records()))
        if task.waiting(batch.topic, batch.partition) > BUFFERED_MAX:
            self._consumer.pause(batch.topic_partition)
            self._paused.add(batch.topic_partition)

    def _process(self) -> bool:
        """Let each task process some records. Return whether there were any."""
        is_busy = False
        for task in list(self._running.values()):
            with self._tasks.lock:
                for _ in range(STEPS_MAX):
                    now = now_ms()
                    if not task.step(now):
                        break
                    task.punctuate_stream_time(now)
                    is_busy = True
                task.punctuate_clock(now_ms())
            self._send(task.take_output())
        self._resume()
        return is_busy

    def _resume(self) -> None:
        """Read partitions again of which few records wait."""
        for place in list(self._paused):
            task = self._running.get(self._task_of(place))
            if task is None:
                self._paused.discard(place)
            elif task.waiting(*place) <= BUFFERED_MAX:
                self._paused.discard(place)
                self._consumer.resume(place)

    def _send(self, records: list[Produced]) -> None:
        if not records:
            return
        if self._settings.exactly_once and not self._in_transaction:
            self._producer.begin_transaction()
            self._in_transaction = True
        send(self._producer, records, self._topics.count)

    # -- commits --------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Make durable what the tasks have done."""
        self._committed_ms = now_ms()
        dirty = [task for task in self._running.values() if task.needs_commit]
        for task in dirty:
            with self._tasks.lock:
                task.commit(now_ms())
            self._send(task.take_output())
        offsets = {
            TopicPartition(*place): committed_offset(task, place, offset)
            for task in dirty
            for place, offset in task.positions.items()
        }
        if self._settings.exactly_once:
            self._commit_transaction(offsets)
        else:
            self._producer.flush()
            if offsets:
                self._consumer.commit(offsets)
        done = {place: at.offset for place, at in offsets.items()}
        self._committed.update(done)
        self._note_read(done)

    def _note_read(self, committed: dict[TopicPartition, int]) -> None:
        """Delete from time to time what was read of repartition topics: nobody else needs it."""
        repartition = self._layout.repartition_topics
        self._read_to.update(
            (place, offset) for place, offset in committed.items() if place.topic in repartition
        )
        now = now_ms()
        if not self._read_to or now - self._purged_ms < self._settings.purge_interval_ms:
            return
        self._purged_ms = now
        before, self._read_to = self._read_to, {}
        delete_read(self._settings, before)

    def _commit_transaction(self, offsets: dict[TopicPartition, CommittedOffset]) -> None:
        if not offsets and not self._in_transaction:
            return
        if not self._in_transaction:
            self._producer.begin_transaction()
            self._in_transaction = True
        if offsets:
            # Who takes a task over reads its changelogs to the ends that they have, and then waits for
            # pending offsets. So what the offsets stand for must be in the changelogs before them.
            self._producer.flush()
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata)
        self._producer.commit_transaction()
        self._in_transaction = False

    def _abort(self) -> None:
        """Forget what is not committed, after an error."""
        if self._in_transaction:
            try:
                self._producer.abort_transaction()
            except ClientError as error:
                log.warning("the transaction was not aborted: %s", error)
            self._in_transaction = False

    def _renew_producer(self) -> None:
        """Take another transactional id, because the transaction may have ended without this process."""
        if self._settings.exactly_once:
            quietly(lambda: self._producer.close(0))
            self._producer = make_producer(self._topology.application_id, self._settings)

    # -- tasks ----------------------------------------------------------------------------------

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._owned.update(partitions)
        if self._stops:
            return
        self._consumer.pause(*partitions)
        active, standby = self._member.tasks(self._task_of(each) for each in self._owned)
        now = now_ms()
        self._tasks.add(active - self._tasks.active, now)
        self._tasks.stand_by(standby, now)

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self._has_failed:
            self._forget(partitions)
            return
        self._commit()
        if self._stops:
            self._forget(partitions)
            return
        self._owned.difference_update(partitions)
        task_ids = {self._task_of(each) for each in partitions}
        self._tasks.give_up(task_ids, now_ms(), self._committed)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        log.warning("the group gave %d partitions to others", len(partitions))
        self._abort()
        self._renew_producer()
        self._forget(list(self._owned) if self._settings.exactly_once else partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """End tasks whose work is not committed."""
        task_ids = {self._task_of(each) for each in partitions}
        self._owned.difference_update(partitions)
        self._tasks.lose(task_ids)

    def _task_of(self, partition: TopicPartition) -> TaskId:
        return self._layout.subtopology_of(partition.topic).number, partition.partition

    def _partitions(self, task: Task) -> list[tuple[str, int]]:
        return [each for each in task.partitions() if TopicPartition(*each) in self._owned]

    # -- global tables --------------------------------------------------------------------------

    def _read_globals(self) -> Consumer | None:
        """Read the topics of global tables whole, before any task begins."""
        topics = self._global.topics()
        if not topics:
            return None
        reading = self._settings.clients[GLOBAL_CONSUMER]
        ends = {
            TopicPartition(topic, partition): None
            for topic in topics
            for partition in range(self._topics.count(topic))
        }
        positions = read_whole(reading, ends, self._update_global, lambda: self._stops)
        consumer = Consumer(reading)
        consumer.assign([(each.topic, each.partition, at) for each, at in positions.items()])
        return consumer

    def _update_globals(self) -> None:
        if self._global_consumer is None:
            return
        while (batch := self._global_consumer.poll(0)) is not None:
            with self._tasks.lock:
                for record in batch.records():
                    self._update_global(record)

    def _update_global(self, record: Any) -> None:
        self._global.update(record.topic, record.partition, consumed(record), now_ms())

    def close(self) -> None:
        """Leave the group, which closes the tasks, and close the clients. `run` ends with this."""
        closing: list[Callable[[], None]] = [
            self._consumer.close,
            self._producer.close,
            self._tasks.close,
        ]
        if self._global_consumer is not None:
            closing.append(self._global_consumer.close)
        if self._service is not None:
            closing.append(self._service.stop)
        for close in closing:
            quietly(close)


def has_lost_tasks(error: BaseException | None) -> bool:
    """Return whether an error means that others have this process's partitions or transactions."""
    while error is not None:
        if isinstance(error, CommitFailedError):
            return True
        if isinstance(error, BrokerError) and error.code in _LOST:
            return True
        error = error.__cause__
    return False
