"""Performs the operations of one state machine, for one partition of a coordinator's topic.

An operation is a method of the state machine that returns records and a response. A `Shard` has
several parts:

- `BatchAccumulator` holds the records that are replayed but not written.
- `CommitWait` holds the responses that wait until records are committed.
- `TimerRunner` runs the timers of the state machine.
- `TaskRunner` runs the tasks of the state machine in threads.
- `AnswerSender` sends delayed responses.

The shard decides when a batch is written:
- An operation in a producer's transaction is written immediately (`write_in_transaction`).
- If no batch is open, the first operation of a millisecond is written immediately, so that its
  response needs no future and no further iteration of the event loop. In the transaction
  coordinator, this applies to all operations for which a client waits.
- All other operations are collected in a batch, which is written at the end of the iteration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

from odradek.broker.coordinator.accumulator import BatchAccumulator
from odradek.broker.coordinator.answer_sender import AnswerSender
from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.deferred import CommitWait, DeferredEvent
from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.broker.coordinator.task_runner import TaskRunner
from odradek.broker.coordinator.timer_runner import OnError, TimerRunner
from odradek.core.coordinator.machine import CoordinatorMachine
from odradek.core.coordinator.result import CoordinatorResult, OnCommit, PackedResult
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.compression import Codec

MachineT = TypeVar("MachineT", bound=CoordinatorMachine)
Answer = Any
"""A response, or a future of a response."""

log: Final = logging.getLogger("odradek.coordinator")


class ShardState(Enum):
    """The states of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """The log could not be read. Requests fail until the next election."""
    CLOSED = "closed"


class Shard(Generic[MachineT]):
    """One partition's state machine and its runtime. Use it only on the event loop's thread."""

    def __init__(
        self,
        name: str,
        machine: MachineT,
        partition: CoordinatorPartition,
        context: ShardContext,
        on_diverged: Callable[[], None],
    ) -> None:
        """`on_diverged` is called if the log end offset differs from the expected offset.

        The partition must then be loaded again.
        """
        self.name = name
        self.machine = machine
        self.state = ShardState.LOADING
        self._partition = partition
        self._context = context
        self._commits = CommitWait(partition, context, self._perform)
        self._batch = BatchAccumulator(
            name, machine, partition, context, self._commits.add, on_diverged
        )
        self._timers = TimerRunner(name, machine.timers, context, self._write_internal)
        self._tasks = TaskRunner(name, context, self._write_internal)
        self._answers = AnswerSender(machine.effects, partition, context)
        self._is_flush_scheduled = False
        self._appended_alone_ms = 0
        """When an operation was last written immediately, or when the shard became active."""

    # -- life ---------------------------------------------------------------------------------

    def activate(self, end_offset: int) -> None:
        """Begin to perform operations: the state machine has replayed the log up to `end_offset`.

        Call `machine.on_loaded` after this method.
        """
        assert self.state is ShardState.LOADING
        self.state = ShardState.ACTIVE
        self._batch.start(end_offset)
        self._answers.start(end_offset)
        self._appended_alone_ms = self._context.clock.monotonic_ms()
        self._timers.start()

    def close(self, state: ShardState = ShardState.CLOSED) -> None:
        """Stop, because another broker coordinates or the log failed. Waiting requests fail."""
        was_active = self.state is ShardState.ACTIVE
        self.state = state
        self._timers.close()
        self._tasks.close()
        if not was_active:
            return
        error = ApiError(ErrorCode.NOT_COORDINATOR)
        self._commits.close(error)
        self._batch.close(error)
        self._answers.close(error)
        self.machine.on_unloaded()
        self._answers.send()

    # -- operations ---------------------------------------------------------------------------

    def write(self, operation: Callable[..., CoordinatorResult[Any]], *arguments: Any) -> Answer:
        """Perform an operation. Return its response, or a future if it must wait for a commit.

        Raises:
            ApiError: the state machine or the log rejects the operation.
        """
        try:
            return self._take(operation(*arguments))
        finally:
            self._perform()

    def read(self, response: Any) -> Answer:
        """Return the response, or a future if it may depend on records that are not committed."""
        return self._take(CoordinatorResult((), response))

    def delete_records_before(self, offset: int) -> None:
        """Delete records that are no longer needed to load the state machine.

        Raises:
            ApiError: see `CoordinatorPartition.delete_records_before`.
        """
        self._partition.delete_records_before(offset)

    def write_in_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        verification_guard: int,
        operation: Callable[..., CoordinatorResult[Any]],
        *arguments: Any,
    ) -> Answer:
        """Perform an operation whose records belong to the producer's transaction.

        The records form a separate batch, which is written immediately. Their changes become
        visible when the transaction commits.

        Raises:
            ApiError: the state machine or the log rejects the operation.
        """
        try:
            result = operation(*arguments)
            if not result.records:
                return self._take(result)
            self._batch.add(result, producer_id, producer_epoch)
            event = self._deferred(result)
            self._batch.defer(event)
            self._flush(verification_guard)
            return event.future
        finally:
            self._perform()

    def complete_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> asyncio.Future[None]:
        """Write the marker that ends a producer's transaction.

        Return a future that completes with None when the marker is committed.

        Raises:
            ApiError: the log rejects the marker.
        """
        self._batch.flush()
        self._batch.append_marker(
            producer_id, producer_epoch, coordinator_epoch, committed, transaction_version
        )
        future: asyncio.Future[None] = self._context.loop.create_future()
        self._commits.add(self._batch.written, (DeferredEvent(None, None, future),))
        return future

    def write_packed(self, operation: Callable[..., PackedResult], *arguments: Any) -> bool:
        """Perform an operation that returns encoded records, and write them as a separate batch.

        Return False if the records cannot be written immediately, or if the state machine or the
        log rejects the operation. Then nothing has changed. Call `write` to get the error.
        """
        now_ms = self._context.clock.monotonic_ms()
        if (
            self._batch.is_open
            or now_ms == self._appended_alone_ms
            or not self._partition.commits_at_once
            or self._context.codec is not Codec.NONE
        ):
            return False
        try:
            result = operation(*arguments)
            self._appended_alone_ms = now_ms
            self._batch.append_packed(result)
        except ApiError:
            return False
        return True

    def write_internal(self, on_error: OnError, operation: Any, *arguments: Any) -> None:
        """Perform an operation. No client waits for its response."""
        self._write_internal(on_error, operation, arguments)

    def _write_internal(
        self,
        on_error: OnError,
        operation: Callable[..., CoordinatorResult[Any]],
        arguments: Sequence[Any],
    ) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        try:
            result = operation(*arguments)
            event = DeferredEvent(None, partial(_on_internal, result.on_commit, on_error), None)
            if result.records:
                self._batch.add(result)
            if self._batch.is_open:
                self._batch.defer(event)
                self._schedule_flush()
            else:
                self._commits.add(self._batch.written, (event,))
        except ApiError as error:
            on_error(error)
        finally:
            self._perform()

    def _take(self, result: CoordinatorResult[Any]) -> Answer:
        """Process a result; return the response, or a future if the response must wait."""
        batch = self._batch
        if result.records:
            is_alone = not batch.is_open
            batch.add(result)
            if not is_alone or not self._may_append_alone():
                return self._join_batch(result)
            self._append_alone(result.on_commit)
        if batch.is_open:
            return self._join_batch(result)
        if self._commits.is_committed(batch.written):
            if result.on_commit is not None:
                result.on_commit(None)
            return result.response
        event = self._deferred(result)
        self._commits.add(batch.written, (event,))
        return event.future

    def _deferred(self, result: CoordinatorResult[Any]) -> DeferredEvent:
        future: asyncio.Future[Any] = self._context.loop.create_future()
        return DeferredEvent(result.response, result.on_commit, future)

    # -- when batches are written ---------------------------------------------------------------

    def _may_append_alone(self) -> bool:
        """Return whether the batch is written immediately.

        The batch is written immediately if operations do not share batches, or if this is the first
        operation of a millisecond.
        """
        context = self._context
        if not context.shares_batches:
            return True
        now_ms = context.clock.monotonic_ms()
        is_first = now_ms != self._appended_alone_ms
        self._appended_alone_ms = now_ms
        return is_first

    def _append_alone(self, on_commit: OnCommit | None) -> None:
        """Write the batch now.

        Raises:
            ApiError: the log rejects the batch.
        """
        try:
            self._batch.flush()
        except ApiError as error:
            if on_commit is not None:
                on_commit(error)
            raise

    def _join_batch(self, result: CoordinatorResult[Any]) -> asyncio.Future[Any] | None:
        event = self._deferred(result)
        self._batch.defer(event)
        self._schedule_flush()
        return event.future

    def _schedule_flush(self) -> None:
        """Write the open batch at the end of this iteration of the event loop."""
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._context.loop.call_soon(self._flush_at_end_of_iteration)

    def _flush_at_end_of_iteration(self) -> None:
        self._is_flush_scheduled = False
        if self._batch.is_open:
            self._flush()
            self._perform()

    def _flush(self, verification_guard: int = 0) -> None:
        """Write the open batch. If that fails, the events that wait for the batch fail."""
        try:
            self._batch.flush(verification_guard)
        except ApiError as error:
            log.warning("%s: a batch could not be written: %s", self.name, error)

    # -- effects ------------------------------------------------------------------------------

    def _perform(self) -> None:
        """Send the responses and start the tasks that the state machine requested."""
        effects = self.machine.effects
        if effects.answers:
            self._answers.send()
        if effects.tasks:
            self._tasks.start(effects.take_tasks())


def _on_internal(on_commit: OnCommit | None, on_error: OnError, error: ApiError | None) -> None:
    if on_commit is not None:
        on_commit(error)
    if error is not None:
        on_error(error)
