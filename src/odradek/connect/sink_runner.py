"""Runs a sink task: reads as a member of the connector's group, converts, delivers and commits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.to_ends import records_of
from odradek.client.core.consumed_batch import Batch
from odradek.client.errors import ClientError
from odradek.connect.error_handler import DeadLetters, ErrorHandler, Skipped
from odradek.connect.pipeline import Pipeline
from odradek.connect.runner import Listener, Runner
from odradek.core.connect.api import ErrantRecordReporter, SinkTask
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.errors import ConnectError, RetriableError
from odradek.core.connect.records import SinkRecord
from odradek.core.connect.retry import Stage
from odradek.core.connect.sink_task import SinkProgress
from odradek.java_regex.pattern import Pattern
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record

log = logging.getLogger(__name__)

Partitions = Collection[TopicPartition]
_POLL_MS = 500
_RETRY_MS = 1_000
_TOPICS_SECONDS = 10.0
_UNRECOVERABLE = "Exiting WorkerSinkTask due to unrecoverable exception."


class Context:
    """What the task can ask. Its thread is the host's; the owner does what is asked between calls."""

    def __init__(self, errors: ErrorHandler, originals: Callable[..., Record | None]) -> None:
        self._lock = threading.Lock()
        self._assigned: set[TopicPartition] = set()
        self._seek: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._has_changed_pauses = False
        self._timeout_ms: int | None = None
        self._wants_commit = False
        self._reporter = _Reporter(errors) if errors.reports else None

    def assignment(self) -> set[TopicPartition]:
        """See `SinkTaskContext`."""
        with self._lock:
            return set(self._assigned)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkTaskContext`."""
        with self._lock:
            self._seek.update(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`."""
        with self._lock:
            self._paused.update(partitions)
            self._has_changed_pauses = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`."""
        with self._lock:
            self._paused.difference_update(partitions)
            self._has_changed_pauses = True

    def set_timeout(self, timeout_ms: int) -> None:
        """See `SinkTaskContext`."""
        self._timeout_ms = timeout_ms

    def request_commit(self) -> None:
        """See `SinkTaskContext`."""
        self._wants_commit = True

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """See `SinkTaskContext`."""
        return self._reporter

    # -- the owner ------------------------------------------------------------------------------

    def assigned(self, partitions: set[TopicPartition]) -> None:
        """Note which partitions the task has."""
        with self._lock:
            self._assigned = set(partitions)
            self._paused &= partitions

    def take_seek(self) -> dict[TopicPartition, int]:
        """Return where to read on, once."""
        with self._lock:
            found, self._seek = self._seek, {}
            return found

    def take_pauses(self) -> set[TopicPartition] | None:
        """Return the partitions to pause, if they have changed."""
        with self._lock:
            if not self._has_changed_pauses:
                return None
            self._has_changed_pauses = False
            return set(self._paused)

    def take_timeout_ms(self) -> int | None:
        """Return how long to wait, once."""
        found, self._timeout_ms = self._timeout_ms, None
        return found

    def take_commit(self) -> bool:
        """Return whether a commit was asked for, once."""
        found, self._wants_commit = self._wants_commit, False
        return found


class _Reporter:
    def __init__(self, errors: ErrorHandler) -> None:
        self._errors = errors

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        """See `ErrantRecordReporter`."""
        written = self._errors.tolerate(Stage.TASK_PUT, error, record)
        if written is None:
            written = Future()
            written.set_result(None)
        return written


class SinkRunner(Runner):
    """See the module."""

    def __init__(
        self,
        task: TaskId,
        state: TargetState,
        listener: Listener,
        *,
        make: Callable[[], SinkTask],
        config: Mapping[str, str],
        pipeline: Pipeline,
        make_errors: Callable[[threading.Event, DeadLetters | None], ErrorHandler],
        make_dead_letters: Callable[[Callable[..., Record | None]], DeadLetters | None],
        cluster: Cluster,
        make_consumer: Callable[..., Consumer],
        topics: Sequence[str],
        pattern: str | None,
        commit_interval_ms: int,
    ) -> None:
        super().__init__(task, state, listener)
        self._make = make
        self._config = config
        self._pipeline = pipeline
        self._dead_letters = make_dead_letters(self._original)
        self.errors = make_errors(self._stopping, self._dead_letters)
        self._cluster = cluster
        self._make_consumer = make_consumer
        self._topics = list(topics)
        self._pattern = None if pattern is None else Pattern(pattern)
        self._progress = SinkProgress(commit_interval_ms, self._now_ms())
        self._context = Context(self.errors, self._original)
        self._originals: dict[tuple[str, int, int], Record] = {}
        self._sink: SinkTask | None = None
        self._consumer: Consumer | None = None
        self._batch: list[SinkRecord] = []
        self._next_positions: dict[TopicPartition, int] = {}
        self._is_retrying = False
        self._is_held = False
        """Whether all partitions are paused, because the task is paused or retries."""
        self._failure: Exception | None = None
        self._topics_at = 0.0

    @staticmethod
    def _now_ms() -> int:
        return round(time.monotonic() * 1000)

    def _original(self, topic: str, partition: int, offset: int) -> Record | None:
        return self._originals.get((topic, partition, offset))

    def _make_task(self) -> SinkTask:
        made = self._make()
        self._made = made
        return made

    def _run(self) -> None:
        self._sink = self._call(self._make_task)
        assert self._sink is not None, "the factory returns a task"
        self._sink.initialize(self._context)
        is_started = False
        try:
            self._call(self._sink.start, self._config)
            is_started = True
            self._loop()
        finally:
            try:
                self._close_consumer()
                if is_started and not self._is_cancelled:
                    self._call(self._sink.stop)
            finally:
                self._cluster.close()
                self._pipeline.close()
                if self._dead_letters is not None:
                    self._dead_letters.close()

    def _loop(self) -> None:
        shown: str | None = None
        while not self._stopping.is_set():
            state = "PAUSED" if self.is_paused else "RUNNING"
            if state != shown:
                self._tell(state)
                shown = state
                if self.is_paused:
                    self._progress.ask()
            consumer = self._joined()
            if consumer is None:
                self._stopping.wait(1.0)
                continue
            self._hold(consumer)
            self._serve_asks(consumer)
            self._iterate(consumer)
            if self._context.take_commit():
                self._progress.ask()
            if self._progress.is_due(self._now_ms()):
                self._commit(consumer, is_closing=False)

    # -- the group ------------------------------------------------------------------------------

    def _joined(self) -> Consumer | None:
        """Return the consumer; None if no topic matches the pattern yet."""
        if self._pattern is not None and time.monotonic() >= self._topics_at:
            self._topics_at = time.monotonic() + _TOPICS_SECONDS
            found = self._matching()
            if found != self._topics:
                self._close_consumer()
                self._topics = found
        if not self._topics:
            return None
        if self._consumer is None:
            self._consumer = self._make_consumer(
                self._topics,
                on_assigned=self._assigned,
                on_revoked=self._revoked,
                on_lost=self._lost,
            )
        return self._consumer

    def _matching(self) -> list[str]:
        pattern = self._pattern
        assert pattern is not None, "only tasks with a pattern look for topics"
        try:
            topics = self._cluster.refresh().topics
        except ClientError as error:
            log.warning("task %s: the topics cannot be listed: %s", self.task, error)
            return self._topics
        return sorted(each for each in topics if pattern.matches(each))

    def _assigned(self, partitions: Partitions) -> None:
        assert self._consumer is not None, "its callback was called"
        positions = {each: self._consumer.position(each) for each in partitions}
        self._progress.opened(positions)
        self._context.assigned(set(self._progress.delivered))
        self._is_held = False
        assert self._sink is not None, "the task was made before the consumer"
        self._call(self._sink.open, list(positions))

    def _revoked(self, partitions: Partitions) -> None:
        self._give_up(partitions, commits=True)

    def _lost(self, partitions: Partitions) -> None:
        self._give_up(partitions, commits=False)

    def _give_up(self, partitions: Partitions, *, commits: bool) -> None:
        if self._is_cancelled or self._sink is None:
            return
        held = [each for each in partitions if each in self._progress.delivered]
        if not held:
            return
        if commits and self._consumer is not None and not self.has_failed:
            self._commit(self._consumer, is_closing=True)
        self._call(self._sink.close, held)
        gone = set(held)
        self._progress.closed(held)
        self._context.assigned(set(self._progress.delivered))
        self._batch = [
            each
            for each in self._batch
            if TopicPartition(each.original_topic, each.original_partition) not in gone
        ]
        self._next_positions = {k: v for k, v in self._next_positions.items() if k not in gone}

    def _close_consumer(self) -> None:
        consumer, held = self._consumer, list(self._progress.delivered)
        if consumer is None:
            return
        try:
            if held and not self._is_cancelled:
                self._give_up(held, commits=True)
        finally:
            self._consumer = None
            consumer.close()

    # -- records --------------------------------------------------------------------------------

    def _hold(self, consumer: Consumer) -> None:
        """Pause all partitions while the task is paused or the same records come again."""
        wanted = self.is_paused or self._is_retrying
        assigned = consumer.assignment
        if wanted and not self._is_held and assigned:
            consumer.pause(assigned)
            self._is_held = True
        elif not wanted and self._is_held:
            consumer.resume(assigned)
            self._is_held = False

    def _serve_asks(self, consumer: Consumer) -> None:
        """Do what the task asked for since the last call."""
        seek = {k: v for k, v in self._context.take_seek().items() if k in consumer.assignment}
        if seek:
            _seek(consumer, seek)
            self._progress.rewound(seek)
        pauses = self._context.take_pauses()
        if pauses is not None and not self._is_held:
            assigned = consumer.assignment
            consumer.pause(pauses & assigned)
            consumer.resume(assigned - pauses)

    def _iterate(self, consumer: Consumer) -> None:
        wait_ms = min(_POLL_MS, self._progress.due_ms(self._now_ms()))
        asked_ms = self._context.take_timeout_ms()
        if self._is_retrying:
            wait_ms = _RETRY_MS if asked_ms is None else asked_ms
        elif asked_ms is not None:
            wait_ms = min(wait_ms, asked_ms)
        if self._is_retrying or self.is_paused:
            # No record can arrive, so `poll` would return at once.
            self._stopping.wait(wait_ms / 1000)
            wait_ms = 0
        polled = consumer.poll(wait_ms / 1000)
        if not self._is_retrying:
            self._convert(polled)
        if not self.is_paused:
            self._deliver()

    def _convert(self, polled: Batch | None) -> None:
        keeps = self.errors.reports and self._dead_letters is not None
        self._originals = {}
        if polled is None:
            return
        place = polled.topic_partition
        is_used = False
        for record in records_of(polled):
            if keeps:
                self._originals[place.topic, place.partition, record.offset] = record
            try:
                found = self._pipeline.decode(place, record, self.errors)
            except Skipped:
                continue
            is_used = True
            if found is not None:
                self._batch.append(found)
        if is_used:
            self._listener.used_topic(self.task, place.topic)
        self._next_positions[place] = polled.next_offset

    def _deliver(self) -> None:
        assert self._sink is not None, "the task was made before the consumer"
        try:
            self._call(self._sink.put, self._batch)
        except RetriableError as error:
            log.warning("task %s: the records come again: %s", self.task, error)
            self._is_retrying = True
            return
        except Exception as error:
            self.has_failed = True
            raise ConnectError(_UNRECOVERABLE) from error
        self.record_count += len(self._batch)
        self._batch = []
        self._is_retrying = False
        self._progress.note_delivered(self._next_positions)
        self._next_positions = {}

    # -- commits --------------------------------------------------------------------------------

    def _commit(self, consumer: Consumer, *, is_closing: bool) -> None:
        """Commit what the task says is safe. If it fails, read on from the last commit."""
        sequence = self._progress.began(self._now_ms())
        if self._dead_letters is not None:
            self._dead_letters.flush()
        assert self._sink is not None, "the task was made before the consumer"
        try:
            wanted = self._call(self._sink.pre_commit, self._progress.delivered)
        except Exception as error:
            if is_closing:
                raise
            log.warning(
                "task %s: the offsets are not committed, and reading continues from the last commit: %s",
                self.task,
                error,
            )
            committed = self._progress.committed
            known = {k: v for k, v in committed.items() if k in consumer.assignment}
            _seek(consumer, known)
            self._progress.rewound(known)
            return
        offsets = self._progress.commitable(wanted or {})
        if not offsets:
            return
        try:
            consumer.commit(offsets)
            self._progress.commit_done(sequence, offsets)
        except ClientError as error:
            log.warning("task %s: the commit failed: %s", self.task, error)


def _seek(consumer: Consumer, positions: Mapping[TopicPartition, int]) -> None:
    for each, offset in positions.items():
        consumer.seek(each, offset)
