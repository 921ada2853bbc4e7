"""One partition of a coordinator's topic: its machine, its open batch, and who waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from odradek.broker.coordinator.errors import coordinator_error
from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.broker.coordinator.pending import Pending, PendingAnswers
from odradek.core.coordinator.machine import CoordinatorMachine, Task
from odradek.core.coordinator.record import encode
from odradek.core.coordinator.result import CoordinatorResult, OnCommit, PackedResult
from odradek.core.coordinator.timers import Timer
from odradek.env.clock import Clock
from odradek.env.executor import Executor, call
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import end_of_transaction_batch

MachineT = TypeVar("MachineT", bound=CoordinatorMachine)
Answer = Any
"""A response, or a future of one."""

TIMERS_PER_TURN = 100
"""Timers that may run before others get their turn of the loop."""
ANSWERS_PER_TURN = 100
"""Members that may be told something before others get their turn."""
RECORD_OVERHEAD = 40
"""Bytes that a record can take in a batch besides key and value."""

log = logging.getLogger("odradek.coordinator")


class ShardState(Enum):
    """What a shard can do."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read: refused until there is another election."""
    CLOSED = "closed"


class Means:
    """What all shards of a runtime share."""

    __slots__ = (
        "clock",
        "codec",
        "executor",
        "loop",
        "on_loaded",
        "shares_batches",
        "write_timeout_ms",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        write_timeout_ms: int,
        *,
        codec: Codec = Codec.NONE,
        shares_batches: bool = True,
        on_loaded: Callable[[int], None] = lambda records: None,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.executor = executor
        self.write_timeout_ms = write_timeout_ms
        """How long an answer may wait for its records to be committed."""
        self.codec = codec
        """How batches are compressed."""
        self.shares_batches = shares_batches
        """Whether questions of one millisecond share a batch, rather than write one each."""
        self.on_loaded = on_loaded
        """Called with the number of records of each partition that was loaded."""


class Shard(Generic[MachineT]):
    """See the module. Everything happens on the loop's thread."""

    def __init__(
        self,
        name: str,
        machine: MachineT,
        partition: CoordinatorPartition,
        means: Means,
        out_of_step: Callable[[], None],
    ) -> None:
        """`out_of_step` is called when the log has moved under the machine; it must reload."""
        self.name = name
        self.machine = machine
        self.state = ShardState.LOADING
        self._partition = partition
        self._means = means
        self._out_of_step = out_of_step
        self._builder: RecordBatchBuilder | None = None
        self._batch_answers: list[Pending] = []
        self._next_offset = 0
        """The offset of the next record; those before it are replayed."""
        self._written = 0
        """Where the log ends, as far as this shard has written it."""
        self._committed = 0
        self._pending = PendingAnswers()
        self._flush_scheduled = False
        self._alone_ms = 0
        """When a question was last written at once, or the shard became active."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._timeout: asyncio.TimerHandle | None = None
        self._tasks: dict[Any, Task] = {}

    # -- life ---------------------------------------------------------------------------------

    def activate(self, loaded_to: int) -> None:
        """The log is replayed up to `loaded_to`, its end. `machine.on_loaded` follows."""
        assert self.state is ShardState.LOADING
        self.state = ShardState.ACTIVE
        self._next_offset = self._written = loaded_to
        self._committed = min(self._partition.high_watermark, loaded_to)
        self._alone_ms = self._means.clock.monotonic_ms()
        self._partition.listen(self.on_high_watermark)
        self.machine.timers.changed = self._arm
        self._arm()

    def close(self, state: ShardState = ShardState.CLOSED) -> None:
        """Another broker coordinates, or the log failed: send everyone away."""
        was_active = self.state is ShardState.ACTIVE
        self.state = state
        self.machine.timers.changed = None
        self.machine.timers.cancel_all()
        self._tasks.clear()
        for handle in (self._alarm, self._timeout):
            if handle is not None:
                handle.cancel()
        if not was_active:
            return
        self._partition.listen(None)
        error = ApiError(ErrorCode.NOT_COORDINATOR)
        answers = self._pending.take_all() + self._batch_answers
        self._batch_answers = []
        self._builder = None
        for each in answers:
            each.fail(error)
        self.machine.on_unloaded()
        self._answer_tickets()

    # -- questions ----------------------------------------------------------------------------

    def ask(self, question: Callable[..., CoordinatorResult[Any]], *arguments: Any) -> Answer:
        """Ask the machine; the answer, or a future of it.

        Raises:
            ApiError: the machine refuses, or the log does.
        """
        try:
            result = question(*arguments)
            return self._take(result)
        finally:
            self._perform()

    def ask_in_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        verification_guard: int,
        question: Callable[..., CoordinatorResult[Any]],
        *arguments: Any,
    ) -> Answer:
        """The same for records that count when the producer's transaction commits.

        They are a batch of their own, written at once.

        Raises:
            ApiError: the machine refuses, or the log does.
        """
        try:
            result = question(*arguments)
            if not result.records:
                return self._take(result)
            self._admit(result, producer_id, producer_epoch)
            pending = self._join_batch(result)
            self._try_flush(verification_guard)
            return pending.future
        finally:
            self._perform()

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> Answer:
        """Write the marker that ends a producer's transaction; the future's result is None.

        Raises:
            ApiError: the log refuses.
        """
        self.flush()
        machine = self.machine
        machine.replay_end_of_transaction(producer_id, producer_epoch, committed)
        batch = end_of_transaction_batch(
            committed,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._means.clock.now_ms(),
        )
        self._next_offset += 1
        self._append(self._partition.append, batch, transaction_version=transaction_version)
        pending = Pending(None, None, self._means.loop.create_future())
        self._wait([pending])
        return pending.future

    def when_committed(self, response: Any) -> Answer:
        """The response, as soon as everything that it may have seen is committed."""
        return self._take(CoordinatorResult((), response))

    def _take(self, result: CoordinatorResult[Any]) -> Answer:
        """Take a decision: the response if nothing has to be waited for, else its future."""
        if result.records:
            is_alone = self._builder is None
            self._admit(result)
            if not is_alone or not self._may_write_alone():
                return self._join_batch(result).future
            self._write_alone(result.on_commit)
        if self._builder is None and self._written <= self._committed:
            if result.on_commit is not None:
                result.on_commit(None)
            return result.response
        if self._builder is not None:
            return self._join_batch(result).future
        pending = self._pend(result)
        self._wait([pending])
        return pending.future

    def _may_write_alone(self) -> bool:
        """Whether this is the first question of the millisecond, if it matters."""
        means = self._means
        if not means.shares_batches:
            return True
        now_ms = means.clock.monotonic_ms()
        is_first = now_ms != self._alone_ms
        self._alone_ms = now_ms
        return is_first

    def _write_alone(self, on_commit: OnCommit | None) -> None:
        """Nobody else has asked yet: write at once, which spares a future and a turn of the loop.

        Raises:
            ApiError: the log refuses.
        """
        try:
            self.flush()
        except ApiError as error:
            if on_commit is not None:
                on_commit(error)
            raise

    def _pend(self, result: CoordinatorResult[Any]) -> Pending:
        return Pending(result.response, result.on_commit, self._means.loop.create_future())

    def _join_batch(self, result: CoordinatorResult[Any]) -> Pending:
        """The answer waits for the open batch."""
        pending = self._pend(result)
        self._batch_answers.append(pending)
        self._schedule_flush()
        return pending

    def _schedule_flush(self) -> None:
        """Write the open batch when the turn of the loop ends."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._means.loop.call_soon(self._flush_at_end_of_turn)

    def write_at_once(self, question: Callable[..., PackedResult], *arguments: Any) -> bool:
        """Ask the machine what is asked most, and write its records alone, now.

        False if that cannot be: others have to be waited for, or the machine or the log refuses.
        Nothing has changed then, and `ask` will tell.
        """
        means = self._means
        now_ms = means.clock.monotonic_ms()
        if (
            self._builder is not None
            or now_ms == self._alone_ms
            or self._written > self._committed
            or not self._partition.commits_at_once
            or means.codec is not Codec.NONE
        ):
            return False
        try:
            records, replay = question(*arguments)
        except ApiError:
            return False
        self._alone_ms = now_ms
        replay(self._next_offset)
        self._next_offset += len(records)
        try:
            self._append(self._partition.append_records, means.clock.now_ms(), records)
        except ApiError:
            return False
        assert self._written <= self._committed, "what is appended is committed"
        return True

    # -- the batch ----------------------------------------------------------------------------

    def _admit(
        self,
        result: CoordinatorResult[Any],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Replay the records of a decision and add them to a batch.

        Raises:
            ApiError: a batch before had to be written for that, and could not be.
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
                self._open_batch(producer_id, producer_epoch)
            self._add_records(result, encoded, producer_id, producer_epoch)
        except Exception as error:
            if isinstance(error, ApiError):
                known = error
            else:  # a defect of the machine: nothing of the batch can be trusted
                known = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
                self._fail_batch(known)
            if result.on_commit is not None:
                result.on_commit(known)
            raise

    def _open_batch(self, producer_id: int, producer_epoch: int) -> RecordBatchBuilder:
        self._builder = RecordBatchBuilder(
            codec=self._means.codec,
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
        """A full batch is written before the next record, unless all belong together."""
        now_ms = self._means.clock.now_ms()
        limit = self._partition.batch_bytes_max
        machine = self.machine
        builder = self._builder
        assert builder is not None
        for record, (key, value) in zip(result.records, encoded, strict=True):
            if not result.atomic and builder.count:
                size = len(key) + len(value or b"") + RECORD_OVERHEAD
                if builder.size + size > limit:
                    self.flush()
                    builder = self._open_batch(producer_id, producer_epoch)
            if result.replay:
                machine.replay(self._next_offset, producer_id, producer_epoch, record)
            builder.append(now_ms, key, value)
            self._next_offset += 1

    def _flush_at_end_of_turn(self) -> None:
        self._flush_scheduled = False
        if self.state is not ShardState.ACTIVE or self._builder is None:
            return
        self._try_flush()
        self._perform()

    def _try_flush(self, verification_guard: int = 0) -> None:
        """Write the open batch; if that fails, those who wait for it are told."""
        try:
            self.flush(verification_guard)
        except ApiError as error:
            log.warning("%s: a batch could not be written: %s", self.name, error)

    def flush(self, verification_guard: int = 0) -> None:
        """Write the open batch, if there is one.

        Raises:
            ApiError: it could not be written; everything in it is undone and refused.
        """
        builder = self._builder
        if builder is None:
            return
        assert builder.count, "a batch is opened for records"
        self._append(self._partition.append, builder.build(), verification_guard=verification_guard)
        answers, self._batch_answers = self._batch_answers, []
        self._builder = None
        if answers:
            self._wait(answers)

    def _append(self, append: Callable[..., int], *arguments: Any, **named: Any) -> None:
        """Let the partition append; what it refuses is undone.

        Raises:
            ApiError: it refuses, or the log ends elsewhere than it should.
        """
        try:
            end_offset = append(*arguments, **named)
        except ApiError as error:
            translated = coordinator_error(error)
            self._fail_batch(translated)
            raise translated from error
        if end_offset != self._next_offset:
            log.error(
                "%s ends at offset %d, its coordinator expected %d; it is loaded again",
                self.name,
                end_offset,
                self._next_offset,
            )
            self._out_of_step()
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self._written = end_offset
        self.machine.journal.commit()

    def _fail_batch(self, error: ApiError) -> None:
        """Undo what was not written, and refuse who waits for it."""
        self.machine.journal.roll_back()
        self._next_offset = self._written
        self._builder = None
        answers, self._batch_answers = self._batch_answers, []
        for each in answers:
            each.fail(error)

    # -- commits ------------------------------------------------------------------------------

    def _wait(self, answers: list[Pending]) -> None:
        """Let answers wait until all that is written is committed."""
        if self._written <= self._committed:
            for each in answers:
                each.succeed()
            return
        deadline_ms = self._means.clock.monotonic_ms() + self._means.write_timeout_ms
        self._pending.add(self._written, deadline_ms, answers)
        if self._timeout is None:
            self._await_deadline()

    def on_high_watermark(self, offset: int) -> None:
        """All records before `offset` are committed."""
        self._committed = offset
        if self._pending:
            for each in self._pending.take_committed(offset):
                each.succeed()
            self._perform()

    def _await_deadline(self) -> None:
        deadline_ms = self._pending.next_deadline_ms
        if deadline_ms is None:
            self._timeout = None
            return
        delay_ms = max(0, deadline_ms - self._means.clock.monotonic_ms())
        self._timeout = self._means.loop.call_later(delay_ms / 1000, self._expire_answers)

    def _expire_answers(self) -> None:
        """What was written may still be committed; but clients should ask again."""
        error = coordinator_error(ApiError(ErrorCode.REQUEST_TIMED_OUT))
        for each in self._pending.take_overdue(self._means.clock.monotonic_ms()):
            each.fail(error)
        self._await_deadline()
        self._perform()

    # -- timers -------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Wake up at the machine's next deadline."""
        deadline_ms = self.machine.timers.next_deadline_ms()
        if deadline_ms is None or self.state is not ShardState.ACTIVE:
            return
        if self._alarm is not None:
            if self._alarm_ms <= deadline_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._means.clock.monotonic_ms())
        self._alarm = self._means.loop.call_later(delay_ms / 1000, self._run_timers)

    def _run_timers(self) -> None:
        self._alarm = None
        try:
            for _ in range(TIMERS_PER_TURN):
                timer = self.machine.timers.take_due()
                if timer is None or self.state is not ShardState.ACTIVE:
                    break
                self._run_timer(timer)
        finally:
            self._arm()

    def _run_timer(self, timer: Timer) -> None:
        on_error = partial(self._on_timer_failed, timer)
        self.ask_unheard(on_error, timer.operation, *timer.arguments)

    def _on_timer_failed(self, timer: Timer, error: ApiError) -> None:
        log.warning("%s: timer %s failed: %s", self.name, timer.key, error)
        if timer.retry_ms is not None and self.state is ShardState.ACTIVE:
            self.machine.timers.schedule(
                timer.key,
                timer.retry_ms,
                timer.operation,
                *timer.arguments,
                retry_ms=timer.retry_ms,
            )

    def ask_unheard(
        self,
        on_error: Callable[[ApiError], None],
        question: Callable[..., CoordinatorResult[Any]],
        *arguments: Any,
    ) -> None:
        """Ask where nobody waits for a response."""
        try:
            result = question(*arguments)
            if not result.records:
                self._take(result)
                return
            self._admit(result)
            on_commit = partial(_unheard, result.on_commit, on_error)
            self._batch_answers.append(Pending(None, on_commit, None))
            self._schedule_flush()
        except ApiError as error:
            on_error(error)
        finally:
            self._perform()

    # -- effects ------------------------------------------------------------------------------

    def _perform(self) -> None:
        """Do what the machine has asked for."""
        effects = self.machine.effects
        if effects.answers:
            self._answer_tickets()
        if effects.tasks:
            tasks = effects.tasks[:]
            effects.tasks.clear()
            for task in tasks:
                self._start(task)

    def _answer_tickets(self) -> None:
        """All members of a group may wait for the same thing: then others get their turn too."""
        waiting = self.machine.effects.answers
        answers = waiting[:ANSWERS_PER_TURN]
        del waiting[:ANSWERS_PER_TURN]
        for ticket, response in answers:
            if not ticket.done():
                ticket.set_result(response)
        if waiting:
            self._means.loop.call_soon(self._answer_tickets)

    def _start(self, task: Task) -> None:
        if task.key in self._tasks or self.state is not ShardState.ACTIVE:
            return
        self._tasks[task.key] = task
        future = call(self._means.executor, task.work, loop=self._means.loop)
        future.add_done_callback(partial(self._on_task_done, task))

    def _on_task_done(self, task: Task, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if self._tasks.get(task.key) is not task:
            return
        del self._tasks[task.key]
        outcome = future.result() if error is None else error
        self.ask_unheard(partial(self._on_task_failed, task), task.done, outcome)

    def _on_task_failed(self, task: Task, error: ApiError) -> None:
        log.warning("%s: the outcome of %s was lost: %s", self.name, task.key, error)


def _unheard(
    on_commit: OnCommit | None, on_error: Callable[[ApiError], None], error: ApiError | None
) -> None:
    if on_commit is not None:
        on_commit(error)
    if error is not None:
        on_error(error)
