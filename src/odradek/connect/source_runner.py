"""Runs a source task: does what `core.connect.source_machine` decides."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from odradek.client.errors import ClientError
from odradek.client.producer import Delivery, Producer
from odradek.connect.error_handler import ErrorHandler, Skipped
from odradek.connect.pipeline import Pipeline
from odradek.connect.runner import Listener, Runner
from odradek.connect.task_process import RemoteSourceTask
from odradek.connect.topic_creation import TopicCreation
from odradek.core.connect import task_messages as m
from odradek.core.connect.api import SourceTask, TransactionContext
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.source_machine import SourceMachine

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


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
        super().__init__(task, listener)
        self._make = make
        self._config = config
        self._pipeline = pipeline
        self.errors = make_errors(self._stopping)
        self._make_producer = make_producer
        self._open_offsets = open_offsets
        self._topics = topics
        self._flush_s = self._close_s = flush_timeout_ms / 1000
        self.machine: SourceMachine = SourceMachine(
            state, flush_interval_ms, is_tolerant=self.errors.is_tolerant
        )
        self._opened = ExitStack()
        self._offsets: Any = None
        """The store, while the task runs."""
        self._source: SourceTask | None = None
        self._producer: Producer | None = None
        self._delivered: deque[m.Written] = deque()
        """What has become of records, for the machine. Any thread appends."""

    @property
    def source(self) -> SourceTask:
        """The task."""
        assert self._source is not None, "it was made"
        return self._source

    @property
    def producer(self) -> Producer:
        """The producer."""
        assert self._producer is not None, "it was made"
        return self._producer

    def _transaction_context(self) -> TransactionContext | None:
        return None

    def feed(self, event: m.Event) -> None:
        """See `Runner`. The machine hears first what has become of records."""
        if self._delivered:
            count = len(self._delivered)
            written = [self._delivered.popleft() for _ in range(count)]
            super().feed(m.Delivered(written))
        super().feed(event)

    # -- effects --------------------------------------------------------------------------------

    def _do(self, wanted: m.Asking) -> Any:
        match wanted:
            case m.Poll():
                return self._host.call(_polled, self.source)
            case m.Convert(_, records):
                return self._convert(records)
            case m.Send(_, records):
                for each in records:
                    self._send(each)
                return None
            case m.TellWritten(_, told):
                return self._host.call(_commit_records, self.source, told)
            case m.Flush():
                return self._flush()
            case m.StoreOffsets(_, offsets):
                return None if self._is_cancelled else self._store(offsets)
            case m.CommitTask():
                return self._host.call(self.source.commit)
            case _:
                return self._begin_or_end(wanted)

    def _begin_or_end(self, wanted: m.Asking) -> Any:
        match wanted:
            case m.OpenOffsets():
                self._offsets = self._opened.enter_context(self._open_offsets())
                return getattr(self._offsets, "topic", None)
            case m.MakeTask():
                return self._host.call(self._make_task)
            case m.OpenProducer():
                self._producer = self._make_producer()
                return None
            case m.StartTask():
                return self._host.call(self.source.start, self._config)
            case m.StopTask():
                return self._host.call(self.source.stop)
            case _:
                raise AssertionError(f"a source does not do this: {wanted}")

    def _make_task(self) -> bool:
        made = self._make()
        self._made = self._source = made
        context = Context(self.task.connector, self._offsets, self._transaction_context())
        made.initialize(context)
        return _hears_of_records(made)

    def _convert(self, records: Sequence[SourceRecord]) -> m.Converted:
        found: list[m.Encoded | None] = []
        for record in records:
            try:
                found.append(self._pipeline.encode(record, self.errors))
            except Skipped:
                found.append(None)
            except Exception as error:  # noqa: BLE001 - the machine hears of it
                return m.Converted(found, error)
        return m.Converted(found)

    def _send(self, outgoing: m.Outgoing) -> None:
        encoded = outgoing.encoded
        topic = encoded.record.topic
        if self._topics is not None:
            self._topics.ensure(topic)
        self._listener.used_topic(self.task, topic)
        self.producer.send(
            topic,
            encoded.value,
            key=encoded.key,
            headers=encoded.headers,
            partition=encoded.record.partition,
            timestamp=encoded.record.timestamp,
            on_delivery=lambda delivery: self._note_delivery(outgoing, delivery),
        )
        self.record_count += 1

    def _note_delivery(self, outgoing: m.Outgoing, delivery: Delivery) -> None:
        """Note what has become of a record. Any thread calls this."""
        error = delivery.error
        if error is not None and self.errors.is_tolerant:
            self.errors.counts.dropped()
            log.warning("task %s: a record was not written and is dropped: %s", self.task, error)
        self._delivered.append(m.Written(outgoing, delivery.offset, error))

    def _flush(self) -> None:
        try:
            self.producer.flush(self._flush_s)
        except ClientError as error:
            log.warning("task %s: not all records are written: %s", self.task, error)

    def _store(self, offsets: Sequence[tuple[Json, Json]]) -> None:
        self._offsets.write(self.task.connector, offsets)

    def _release(self) -> None:
        """See `Runner`. The host is busy, so another thread does it."""
        threading.Thread(target=self.source.stop, daemon=True).start()

    def _close(self) -> None:
        """See `Runner`."""
        with self._opened:
            try:
                if self._producer is not None:
                    self._producer.close(0 if self._is_cancelled else self._close_s)
            finally:
                self._pipeline.close()
                if self._topics is not None:
                    self._topics.close()


def _polled(source: SourceTask) -> list[SourceRecord]:
    return list(source.poll() or ())


def _hears_of_records(source: SourceTask) -> bool:
    if isinstance(source, RemoteSourceTask):
        return source.hears_of_records
    return type(source).commit_record is not SourceTask.commit_record


def _commit_records(source: SourceTask, told: Sequence[tuple[SourceRecord, int | None]]) -> None:
    if isinstance(source, RemoteSourceTask):
        source.commit_records(told)
        return
    for record, offset in told:
        source.commit_record(record, offset)
