"""Runs a source task exactly once (KIP-618): its records and their offsets are in the same transactions.

    fence earlier tasks --> take the transactional id --> check that the task is still this worker's
        --> start --> [ poll, send ... offsets, commit ] ...

A task that was given up, or whose worker is cut off, may still run. The next one with the same transactional
id fences it. What it has not committed is aborted, and read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

from odradek.client.errors import ClientError, RequestTimeoutError
from odradek.client.producer import Producer
from odradek.connect.error_handler import Skipped
from odradek.connect.source_runner import Context, SourceRunner
from odradek.core.connect.api import SourceTask
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.offsets import offset_key
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.source_task import Boundary, Transactions

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
_INIT_SECONDS = 1.0
_OWN_TOPIC = (
    "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
)


class Guard(NamedTuple):
    """What is asked before a task may write."""

    fence: Callable[[Callable[[], bool]], None]
    """Fences the tasks of earlier configurations. The argument says whether to stop waiting."""
    check: Callable[[], Future[Any]]
    """Fails if the task is not this worker's any more, or has a newer configuration."""


class Ends:
    """How a task ends its transactions (`TransactionContext`)."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._transactions.ask(record, is_commit=True)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._transactions.ask(record, is_commit=False)


class ExactSourceRunner(SourceRunner):
    """See the module."""

    def __init__(
        self, *arguments: Any, guard: Guard, boundary: Boundary, interval_ms: int, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._guard = guard
        self._transactions = Transactions(boundary, interval_ms, _now_ms())
        self._is_open = False
        """Whether there is a transaction."""
        self._new_offsets: dict[bytes, tuple[Any, Any]] = {}
        """The last offset of each partition of the source since the last commit, by its key."""
        self._source: SourceTask | None = None

    def _run_with_offsets(self) -> None:
        self._guard.fence(self._stopping.is_set)
        if self._stopping.is_set():
            return
        producer = self._make_producer()
        is_started = False
        try:
            if not self._take_id(producer):
                return
            source = self._start_source()
            is_started = True
            self._loop(source, producer)
            if not self._is_cancelled:
                self._commit_finally(source, producer)
        finally:
            try:
                if is_started and not self._is_cancelled and self._releaser is None:
                    assert self._source is not None, "it was started"
                    self._call(self._source.stop)
            finally:
                producer.close(0)

    def _take_id(self, producer: Producer) -> bool:
        """Fence the earlier producer of this task. Return False if the task shall stop."""
        while not self._stopping.is_set():
            try:
                producer.init_transactions(_INIT_SECONDS)
                break
            except RequestTimeoutError as error:
                log.info("task %s waits for its transactional id: %s", self.task, error)
        checked = self._guard.check()
        while not self._stopping.is_set():
            try:
                checked.result(_LOOK_SECONDS)
            except TimeoutError:
                continue
            return True
        return False

    def _start_source(self) -> SourceTask:
        source: SourceTask = self._call(self._make_task)
        self._source = source
        is_connectors = self._transactions.boundary == Boundary.CONNECTOR
        ends = Ends(self._transactions) if is_connectors else None
        source.initialize(Context(self.task.connector, self._offsets, ends))
        self._call(source.start, self._config)
        return source

    # -- records --------------------------------------------------------------------------------

    def _send(self, batch: Iterable[SourceRecord], producer: Producer) -> None:
        has_any = False
        for record in batch:
            has_any = True
            if self._is_cancelled:
                return
            self._send_one(record, producer)
            self._end(self._transactions.after_record(record), producer)
        if has_any or self._transactions.boundary != Boundary.CONNECTOR:
            self._end(self._transactions.after_batch(_now_ms()), producer)

    def _send_one(self, record: SourceRecord, producer: Producer) -> None:
        try:
            encoded = self._pipeline.encode(record, self.errors)
        except Skipped:
            encoded = None
        if encoded is None:
            self._written.put((record, None))
            return
        topic = encoded.record.topic
        if topic == getattr(self._offsets, "topic", None):
            raise ConnectError(_OWN_TOPIC)
        if self._topics is not None:
            self._topics.ensure(topic)
        self._listener.used_topic(self.task, topic)
        self._begin(producer)
        producer.send(
            topic,
            encoded.value,
            key=encoded.key,
            headers=encoded.headers,
            partition=encoded.record.partition,
            timestamp=encoded.record.timestamp,
            on_delivery=lambda delivery: self._written.put((record, delivery)),
        )
        self.record_count += 1
        partition, offset = record.source_partition, record.source_offset
        if partition is not None and offset is not None:
            key = offset_key(self.task.connector, partition)
            self._new_offsets[key] = (partition, offset)

    def _begin(self, producer: Producer) -> None:
        if not self._is_open:
            producer.begin_transaction()
            self._is_open = True

    def _end(self, wanted: bool | None, producer: Producer) -> None:
        """End the transaction. After an abort the offsets are committed, so that its records do not return."""
        if wanted is None:
            return
        if not wanted and self._is_open:
            producer.abort_transaction()
            self._is_open = False
        assert self._source is not None, "it was started"
        self._commit(self._source, producer)

    def _serve(self, source: SourceTask, producer: Producer) -> None:
        """Everything is done by `_send`."""

    def _store(self) -> bool:
        """Offsets are only written in transactions."""
        self._commit_at = time.monotonic() + self._interval_s
        return False

    def _commit(self, source: SourceTask, producer: Producer) -> None:
        """Write the offsets, and commit."""
        offsets = list(self._new_offsets.values())
        if offsets or self._is_open:
            try:
                self._begin(producer)
                for key, value in self._offsets.encoded(self.task.connector, offsets):
                    producer.send(self._offsets.topic, value, key=key)
                producer.commit_transaction()
            except ClientError as error:
                raise ConnectError(
                    f"Failed to flush offsets and/or records for task {self.task}"
                ) from error
            self._is_open = False
            self._new_offsets.clear()
            self._copy_offsets(offsets)
        self._transactions.committed(_now_ms())
        self._tell_written(source)
        self._call(source.commit)

    def _copy_offsets(self, offsets: list[tuple[Any, Any]]) -> None:
        """Write the offsets to the worker's topic, too, if the connector has its own. This may fail."""
        copy = getattr(self._offsets, "written", None)
        if copy is None or not offsets:
            return
        try:
            copy(self.task.connector, offsets)
        except ConnectError as error:
            log.warning("the offsets of %s are only in its own topic: %s", self.task, error)

    def _commit_finally(self, source: SourceTask, producer: Producer) -> None:
        """Commit what was sent, unless the task says where transactions end."""
        if self._transactions.boundary == Boundary.CONNECTOR:
            self._end(self._transactions.after_batch(_now_ms()), producer)
        else:
            self._commit(source, producer)


def _now_ms() -> int:
    return round(time.monotonic() * 1000)
