"""Runs a sink task: does what `core.connect.sink_machine` decides."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.to_ends import records_of
from odradek.client.core.consumed_batch import Batch
from odradek.client.errors import ClientError
from odradek.connect.error_handler import DeadLetters, ErrorHandler, Skipped
from odradek.connect.pipeline import Pipeline
from odradek.connect.runner import Listener, Runner, now_ms
from odradek.core.connect import task_messages as m
from odradek.core.connect.api import ErrantRecordReporter, SinkTask
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.records import SinkRecord
from odradek.core.connect.retry import Stage
from odradek.core.connect.sink_machine import SinkMachine
from odradek.java_regex.pattern import Pattern
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record

log = logging.getLogger(__name__)

Partitions = Collection[TopicPartition]


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

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Note which partitions the task has."""
        with self._lock:
            self._assigned = set(partitions)
            self._paused &= self._assigned

    def take(self) -> m.SinkAsked | None:
        """Return what was asked for, once; None if that is nothing."""
        with self._lock:
            seek, self._seek = self._seek, {}
            paused = set(self._paused) if self._has_changed_pauses else None
            self._has_changed_pauses = False
            timeout_ms, self._timeout_ms = self._timeout_ms, None
            wants_commit, self._wants_commit = self._wants_commit, False
        if not seek and paused is None and timeout_ms is None and not wants_commit:
            return None
        return m.SinkAsked(seek, paused, timeout_ms, wants_commit)


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
    """See the module.

    The consumer calls back while it reads. Until then the machine waits for `Read`; it is told what happens
    to partitions, and its effects are done inside of the callback, up to `GoOn`.
    """

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
        super().__init__(task, listener)
        self._make = make
        self._config = config
        self._pipeline = pipeline
        self._dead_letters = make_dead_letters(self._original)
        self.errors = make_errors(self._stopping, self._dead_letters)
        self._cluster = cluster
        self._make_consumer = make_consumer
        self._pattern = None if pattern is None else Pattern(pattern)
        self.machine: SinkMachine = SinkMachine(
            state, commit_interval_ms, now_ms(), topics=topics, has_pattern=pattern is not None
        )
        self._context = Context(self.errors, self._original)
        self._originals: dict[tuple[str, int, int], Record] = {}
        self._sink: SinkTask | None = None
        self._consumer: Consumer | None = None
        self._reading: int | None = None
        """The token of `Read` or `GoOn`, while the consumer reads."""
        self._is_called_back = False
        """Whether a callback of the consumer waits for `GoOn`."""
        self._refusal: Exception | None = None
        """What the last `GoOn` has said."""

    def _original(self, topic: str, partition: int, offset: int) -> Record | None:
        return self._originals.get((topic, partition, offset))

    @property
    def sink(self) -> SinkTask:
        """The task."""
        assert self._sink is not None, "it was made"
        return self._sink

    @property
    def consumer(self) -> Consumer:
        """The consumer."""
        assert self._consumer is not None, "it was made"
        return self._consumer

    def feed(self, event: m.Event) -> None:
        """See `Runner`. The machine hears first what the code of the task has asked for."""
        asked = self._context.take()
        if asked is not None:
            super().feed(asked)
        super().feed(event)

    # -- effects --------------------------------------------------------------------------------

    def _answer(self, wanted: m.Asking) -> None:
        """See `Runner`."""
        if isinstance(wanted, m.GoOn):
            self._reading = wanted.token
            self._refusal = wanted.error
            self._is_called_back = False
            return
        if isinstance(wanted, m.Read):
            self._read(wanted)
            return
        super()._answer(wanted)

    def _do(self, wanted: m.Asking) -> Any:
        match wanted:
            case m.MakeTask():
                return self._host.call(self._make_task)
            case m.StartTask():
                return self._host.call(self.sink.start, self._config)
            case m.StopTask():
                return self._host.call(self.sink.stop)
            case m.OpenPartitions(_, partitions, assigned):
                self._context.assigned(assigned)
                return self._host.call(self.sink.open, partitions)
            case m.ClosePartitions(_, partitions, assigned):
                closed = self._host.call(self.sink.close, partitions)
                closed.add_done_callback(lambda _: self._context.assigned(assigned))
                return closed
            case m.Put(_, records):
                return self._host.call(self._put, records)
            case m.PreCommit(_, offsets):
                return self._host.call(self.sink.pre_commit, offsets)
            case m.FlushDeadLetters():
                return None if self._dead_letters is None else self._dead_letters.flush()
            case _:
                return self._use_consumer(wanted)

    def _use_consumer(self, wanted: m.Asking) -> Any:
        match wanted:
            case m.FindTopics():
                return self._matching()
            case m.Subscribe(_, topics):
                self._consumer = self._make_consumer(
                    topics,
                    on_assigned=self._assigned,
                    on_revoked=lambda gone: self._call_back(m.Change.REVOKED, gone),
                    on_lost=lambda gone: self._call_back(m.Change.LOST, gone),
                )
            case m.Unsubscribe():
                self._close_consumer()
            case m.PauseReading(_, partitions):
                self.consumer.pause(partitions)
            case m.ResumeReading(_, partitions):
                self.consumer.resume(partitions)
            case m.Seek(_, positions):
                for each, offset in positions.items():
                    self.consumer.seek(each, offset)
            case m.CommitOffsets(_, offsets):
                self.consumer.commit(dict(offsets))
            case _:
                raise AssertionError(f"a sink does not do this: {wanted}")
        return None

    def _make_task(self) -> None:
        made = self._make()
        self._made = self._sink = made
        made.initialize(self._context)

    def _put(self, records: Sequence[SinkRecord]) -> None:
        self.sink.put(records)
        self.record_count += len(records)

    def _matching(self) -> list[str] | None:
        pattern = self._pattern
        assert pattern is not None, "only tasks with a pattern look for topics"
        try:
            topics = self._cluster.refresh().topics
        except ClientError as error:
            log.warning("task %s: the topics cannot be listed: %s", self.task, error)
            return None
        return sorted(each for each in topics if pattern.matches(each))

    # -- reading --------------------------------------------------------------------------------

    def _read(self, wanted: m.Read) -> None:
        """Read, and tell the machine. Meanwhile the consumer may call back."""
        self._reading = wanted.token
        found: m.Polled | None = None
        failure: Exception | None = None
        try:
            found = self._convert(self.consumer.poll(wanted.wait_ms / 1000))
        except Exception as error:  # noqa: BLE001 - the machine hears of it
            failure = error
        token, self._reading = self._reading, None
        assert token is not None, "the machine waits for this"
        self._inbox.put(m.Done(token, found, failure))

    def _assigned(self, partitions: Partitions) -> None:
        self._call_back(m.Change.ASSIGNED, partitions)

    def _call_back(self, change: m.Change, partitions: Partitions) -> None:
        """Let the machine act on a change of partitions. If it ends meanwhile, so does the consumer."""
        token = self._reading
        if token is None or self.machine.is_over:
            return  # the consumer is closed, and all partitions are given up
        is_new = change == m.Change.ASSIGNED
        positions = {each: self.consumer.position(each) if is_new else -1 for each in partitions}
        self._is_called_back = True
        self.feed(m.Done(token, m.Rebalanced(change, positions)))
        while self._is_called_back and not self.machine.is_over:
            self.feed(self.next_event())
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def _convert(self, polled: Batch | None) -> m.Polled | None:
        keeps = self.errors.reports and self._dead_letters is not None
        if polled is None:
            return None
        self._originals = {}
        place = polled.topic_partition
        is_used = False
        found: list[SinkRecord] = []
        for record in records_of(polled):
            if keeps:
                self._originals[place.topic, place.partition, record.offset] = record
            try:
                decoded = self._pipeline.decode(place, record, self.errors)
            except Skipped:
                continue
            is_used = True
            if decoded is not None:
                found.append(decoded)
        if is_used:
            self._listener.used_topic(self.task, place.topic)
        return m.Polled(place, found, polled.next_offset)

    # -- the end --------------------------------------------------------------------------------

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _close(self) -> None:
        """See `Runner`."""
        try:
            self._close_consumer()
        finally:
            self._cluster.close()
            self._pipeline.close()
            if self._dead_letters is not None:
                self._dead_letters.close()
