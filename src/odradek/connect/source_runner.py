"""Runs a source task: polls, converts, sends, and commits the offsets of what is written."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from odradek.client.errors import ClientError
from odradek.client.producer import Delivery, Producer
from odradek.connect.error_handler import ErrorHandler, Skipped
from odradek.connect.pipeline import Pipeline
from odradek.connect.runner import Listener, Runner
from odradek.connect.task_process import RemoteSourceTask
from odradek.connect.topic_creation import TopicCreation
from odradek.core.connect.api import SourceTask, TransactionContext
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.errors import ConnectError, RetriableError
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.retry import Stage
from odradek.core.connect.source_task import SourceProgress, Submitted

log = logging.getLogger(__name__)

Json = Mapping[str, Any]
_PAUSE_SECONDS = 0.1
_RELEASE_SECONDS = 1.5
"""How long a task that stops may stay in `poll` before its `stop` is called."""


class OffsetStore(Protocol):
    """Keeps the offsets of sources."""

    def get(self, connector: str, partition: Json) -> dict[str, Any] | None:
        """Return the offset of a partition of a source."""
        ...

    def write(self, connector: str, offsets: Sequence[tuple[Json, Json | None]]) -> None:
        """Store offsets."""
        ...


OpenOffsets = Callable[[], AbstractContextManager[Any]]
"""Opens the `OffsetStore` of a connector."""


class Context:
    """What the task can ask. Its thread is the host's."""

    def __init__(
        self,
        connector: str,
        offsets: OffsetStore,
        transaction: TransactionContext | None = None,
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._transaction = transaction

    def offset(self, partition: Json) -> dict[str, Any] | None:
        """See `SourceTaskContext`."""
        return self._offsets.get(self._connector, partition)

    @property
    def transaction(self) -> TransactionContext | None:
        """See `SourceTaskContext`."""
        return self._transaction


class SourceRunner(Runner):
    """See the module."""

    def __init__(
        self,
        task: TaskId,
        state: TargetState,
        listener: Listener,
        *,
        make: Callable[[], SourceTask],
        config: Mapping[str, str],
        pipeline: Pipeline,
        make_errors: Callable[[threading.Event], ErrorHandler],
        make_producer: Callable[[], Producer],
        open_offsets: OpenOffsets,
        topics: TopicCreation | None,
        flush_interval_ms: int,
        flush_timeout_ms: int,
    ) -> None:
        super().__init__(task, state, listener)
        self._make = make
        self._config = config
        self._pipeline = pipeline
        self.errors = make_errors(self._stopping)
        self._make_producer = make_producer
        self._open_offsets = open_offsets
        self._offsets: Any = None
        """The store, while the task runs."""
        self._topics = topics
        self._interval_s = flush_interval_ms / 1000
        self._flush_s = flush_timeout_ms / 1000
        self._progress = SourceProgress()
        self._written: queue.SimpleQueue[tuple[SourceRecord, Delivery | None]] = queue.SimpleQueue()
        self._failure: ClientError | None = None
        self._commit_at = 0.0
        self._releaser: threading.Thread | None = None
        """Stops the task while it is in `poll`."""
        self._release_at: float | None = None

    def _make_task(self) -> SourceTask:
        made = self._make()
        self._made = made
        return made

    def _run(self) -> None:
        try:
            with self._open_offsets() as self._offsets:
                self._run_with_offsets()
        finally:
            self._pipeline.close()
            if self._topics is not None:
                self._topics.close()

    def _run_with_offsets(self) -> None:
        source: SourceTask = self._call(self._make_task)
        source.initialize(Context(self.task.connector, self._offsets))
        producer = self._make_producer()
        is_started = False
        try:
            self._call(source.start, self._config)
            is_started = True
            self._loop(source, producer)
        finally:
            try:
                if not self._is_cancelled:
                    self._finish(source, producer, is_started=is_started)
            finally:
                producer.close(0 if self._is_cancelled else self._flush_s)

    def _loop(self, source: SourceTask, producer: Producer) -> None:
        self._commit_at = time.monotonic() + self._interval_s
        shown: str | None = None
        while not self._stopping.is_set():
            state = "PAUSED" if self.is_paused else "RUNNING"
            if state != shown:
                self._tell(state)
                if shown is not None:
                    self._commit(source, producer)
                shown = state
            if self.is_paused:
                self._stopping.wait(_PAUSE_SECONDS)
                continue
            batch = self._poll(source, producer)
            self._send(batch, producer)
            self._serve(source, producer)

    def _poll(self, source: SourceTask, producer: Producer) -> Iterable[SourceRecord]:
        def meanwhile() -> None:
            self._check()
            if time.monotonic() >= self._commit_at:
                self._store()
            if self._stopping.is_set():
                self._release_at = self._release_at or time.monotonic() + _RELEASE_SECONDS
                if time.monotonic() >= self._release_at:
                    self._release(source)

        try:
            found = self.errors.run(
                Stage.TASK_POLL, lambda: self._call(source.poll, meanwhile=meanwhile)
            )
        except Skipped:
            return ()
        except RetriableError:
            return ()
        return found or ()

    def _release(self, source: SourceTask) -> None:
        """Tell a task that is in `poll` to stop, once. The host is busy, so another thread does."""
        if self._releaser is None:
            self._releaser = threading.Thread(target=source.stop, daemon=True)
            self._releaser.start()

    def _send(self, batch: Iterable[SourceRecord], producer: Producer) -> None:
        for record in batch:
            self._check()
            submitted: Submitted | None = None
            try:
                encoded = self._pipeline.encode(record, self.errors)
                submitted = self._progress.submit(record)
                if encoded is not None:
                    if self._topics is not None:
                        self._topics.ensure(encoded.record.topic)
                    self._listener.used_topic(self.task, encoded.record.topic)
                    producer.send(
                        encoded.record.topic,
                        encoded.value,
                        key=encoded.key,
                        headers=encoded.headers,
                        partition=encoded.record.partition,
                        timestamp=encoded.record.timestamp,
                        on_delivery=self._on_delivery(record, submitted),
                    )
                    self.record_count += 1
                    continue
            except Skipped:
                submitted = self._progress.submit(record)
            if submitted is not None:
                submitted.written()
            self._written.put((record, None))

    def _on_delivery(
        self, record: SourceRecord, submitted: Submitted | None
    ) -> Callable[[Delivery], None]:
        """Return what is called when the record is written. It is called in any thread."""

        def note(delivery: Delivery) -> None:
            error = delivery.error
            if error is not None and not self.errors.is_tolerant:
                self._failure = error
                return
            if error is not None:
                self.errors.counts.dropped()
                log.warning(
                    "task %s: a record was not written and is dropped: %s", self.task, error
                )
            if submitted is not None:
                submitted.written()
            self._written.put((record, None if error is not None else delivery))

        return note

    def _check(self) -> None:
        if self._failure is not None:
            raise ConnectError(
                "Unrecoverable exception from producer send callback"
            ) from self._failure

    def _serve(self, source: SourceTask, producer: Producer) -> None:
        """Tell the task what is written, and commit if it is time."""
        self._check()
        self._tell_written(source)
        if time.monotonic() >= self._commit_at:
            self._commit(source, producer)

    def _tell_written(self, source: SourceTask) -> None:
        if not _hears_of_records(source):
            while not self._written.empty():
                self._written.get_nowait()
            return
        told: list[tuple[SourceRecord, int | None]] = []
        while not self._written.empty():
            record, delivery = self._written.get_nowait()
            told.append((record, None if delivery is None else delivery.offset))
        if told:
            self._call(_commit_records, source, told)

    def _commit(self, source: SourceTask, producer: Producer) -> None:
        """Wait for the records that are in flight, store the offsets, and tell the task."""
        self._flush(producer)
        self._check()
        self._tell_written(source)
        if self._store():
            self._call(source.commit)

    def _flush(self, producer: Producer) -> None:
        try:
            producer.flush(self._flush_s)
        except ClientError as error:
            log.warning("task %s: not all records are written: %s", self.task, error)

    def _store(self) -> bool:
        self._commit_at = time.monotonic() + self._interval_s
        offsets = self._progress.take_committable()
        if offsets and not self._is_cancelled:
            self._offsets.write(self.task.connector, offsets)
        return True

    def _finish(self, source: SourceTask, producer: Producer, *, is_started: bool) -> None:
        """Commit what is written, then stop the task, as Apache Kafka does."""
        self._flush(producer)
        if is_started:
            self._tell_written(source)
        offsets = self._progress.take_committable()
        if offsets and not self._is_cancelled:
            self._offsets.write(self.task.connector, offsets)
        if is_started:
            try:
                self._call(source.commit)
            except Exception:
                log.exception("task %s: its last commit has failed", self.task)
            if self._releaser is None:
                self._call(source.stop)


def _hears_of_records(source: SourceTask) -> bool:
    if isinstance(source, RemoteSourceTask):
        return source.hears_of_records
    return type(source).commit_record is not SourceTask.commit_record


def _commit_records(source: SourceTask, told: list[tuple[SourceRecord, int | None]]) -> None:
    if isinstance(source, RemoteSourceTask):
        source.commit_records(told)
        return
    for record, offset in told:
        source.commit_record(record, offset)
