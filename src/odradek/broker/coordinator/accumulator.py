"""The records of a partition that are replayed but not written yet (Kafka's CoordinatorBatch).

A record is replayed into the state machine when it is added, so that the next operation uses the
new state. The state machine's journal records the changes. When the batch is appended, the journal
is committed. If the log rejects the batch, the journal rolls back all changes, and all events that
wait for the batch fail. Therefore every replayed record is either in the log or in the open batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.deferred import DeferredEvent
from odradek.broker.coordinator.errors import coordinator_error
from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.core.coordinator.machine import CoordinatorMachine
from odradek.core.coordinator.record import encode
from odradek.core.coordinator.result import CoordinatorResult, PackedResult
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import end_of_transaction_batch

RECORD_OVERHEAD: Final = 40
"""Maximum number of bytes that a record needs in a batch in addition to its key and value."""

log: Final = logging.getLogger("odradek.coordinator")


class BatchAccumulator:
    """The open batch of one partition, the events that wait for it, and the log end offset."""

    __slots__ = (
        "_builder",
        "_context",
        "_events",
        "_machine",
        "_name",
        "_next_offset",
        "_on_diverged",
        "_on_written",
        "_partition",
        "written",
    )

    def __init__(
        self,
        name: str,
        machine: CoordinatorMachine,
        partition: CoordinatorPartition,
        context: ShardContext,
        on_written: Callable[[int, Sequence[DeferredEvent]], None],
        on_diverged: Callable[[], None],
    ) -> None:
        """`on_written` gets the log end offset and the events of a batch that was written.

        `on_diverged` is called if the log end offset differs from the expected offset. The state
        machine must then be loaded again.
        """
        self._name = name
        self._machine = machine
        self._partition = partition
        self._context = context
        self._on_written = on_written
        self._on_diverged = on_diverged
        self._builder: RecordBatchBuilder | None = None
        self._events: list[DeferredEvent] = []
        self._next_offset = 0
        """The offset of the next record. All records before this offset are replayed."""
        self.written = 0
        """The log end offset after the last write."""

    @property
    def is_open(self) -> bool:
        """Whether there are records that are not written yet."""
        return self._builder is not None

    def start(self, end_offset: int) -> None:
        """Begin after the state machine has replayed the log, which ends at `end_offset`."""
        self._next_offset = self.written = end_offset

    def defer(self, event: DeferredEvent) -> None:
        """Add an event that is completed when the open batch is committed."""
        self._events.append(event)

    # -- adding -------------------------------------------------------------------------------

    def add(
        self,
        result: CoordinatorResult[Any],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Replay the records of a result and add them to the open batch.

        Records of a transaction form a separate batch, which must be flushed before other records
        are added.

        Raises:
            ApiError: the previous batch had to be written first, and the write failed.
        """
        try:
            encoded = [encode(each) for each in result.records]
            if producer_id >= 0:
                self.flush()
            elif self._builder is not None and result.atomic:
                size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD for key, value in encoded)
                if self._builder.size + size > self._partition.batch_bytes_max:
                    self.flush()
            if self._builder is None:
                self._open(producer_id, producer_epoch)
            self._add_records(result, encoded, producer_id, producer_epoch)
        except Exception as error:
            if isinstance(error, ApiError):
                known = error
            else:  # a bug in the state machine: the whole batch may be wrong
                known = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
                self.fail(known)
            if result.on_commit is not None:
                result.on_commit(known)
            raise

    def _open(self, producer_id: int, producer_epoch: int) -> RecordBatchBuilder:
        self._builder = RecordBatchBuilder(
            codec=self._context.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id >= 0,
        )
        return self._builder

    def _add_records(
        self,
        result: CoordinatorResult[Any],
        encoded: Sequence[tuple[bytes, bytes | None]],
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """Replay the records and add them to the batch.

        If the result need not be atomic, a full batch is written before the next record.
        """
        now_ms = self._context.clock.now_ms()
        limit = self._partition.batch_bytes_max
        machine = self._machine
        builder = self._builder
        assert builder is not None
        for record, (key, value) in zip(result.records, encoded, strict=True):
            if not result.atomic and builder.count:
                size = len(key) + len(value or b"") + RECORD_OVERHEAD
                if builder.size + size > limit:
                    self.flush()
                    builder = self._open(producer_id, producer_epoch)
            if result.replay:
                machine.replay(self._next_offset, producer_id, producer_epoch, record)
            builder.append(now_ms, key, value)
            self._next_offset += 1

    # -- writing ------------------------------------------------------------------------------

    def flush(self, verification_guard: int = 0) -> None:
        """Write the open batch, if there is one.

        Raises:
            ApiError: the log rejected the batch, or the log end offset is not the expected offset.
                The events that wait for the batch have failed.
        """
        builder = self._builder
        if builder is None:
            return
        assert builder.count, "a batch is opened for records"
        self._append(self._partition.append, builder.build(), verification_guard=verification_guard)
        events, self._events = self._events, []
        self._builder = None
        if events:
            self._on_written(self.written, events)

    def append_packed(self, result: PackedResult) -> None:
        """Write encoded records as a separate batch. No batch may be open.

        Raises:
            ApiError: the log rejected the records, and they are rolled back.
        """
        assert self._builder is None
        records, replay = result
        replay(self._next_offset)
        self._next_offset += len(records)
        self._append(self._partition.append_records, self._context.clock.now_ms(), records)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> None:
        """Write the marker that ends a producer's transaction. No batch may be open.

        Raises:
            ApiError: the log rejected the marker; the transaction is unchanged.
        """
        assert self._builder is None
        self._machine.replay_end_of_transaction(producer_id, producer_epoch, committed)
        batch = end_of_transaction_batch(
            committed,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._context.clock.now_ms(),
        )
        self._next_offset += 1
        self._append(self._partition.append, batch, transaction_version=transaction_version)

    def _append(self, append: Callable[..., int], *arguments: Any, **named: Any) -> None:
        """Call `append`; roll back the records if the partition rejects them.

        Raises:
            ApiError: the partition rejected the records, or its new log end offset is not the
                expected offset.
        """
        try:
            end_offset = append(*arguments, **named)
        except ApiError as error:
            translated = coordinator_error(error)
            self.fail(translated)
            raise translated from error
        if end_offset != self._next_offset:
            log.error(
                "%s ends at offset %d, its coordinator expected %d; it is loaded again",
                self._name,
                end_offset,
                self._next_offset,
            )
            self._on_diverged()
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.written = end_offset
        self._machine.journal.commit()

    def fail(self, error: ApiError) -> None:
        """Roll back the records that are not written, and fail the events that wait for them."""
        self._machine.journal.roll_back()
        self._next_offset = self.written
        self.close(error)

    def close(self, error: ApiError) -> None:
        """Drop the open batch without a rollback, and fail the events that wait for the batch."""
        self._builder = None
        events, self._events = self._events, []
        for each in events:
            each.fail(error)
