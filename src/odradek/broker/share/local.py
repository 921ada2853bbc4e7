"""A share partition on this broker: its state machine, the timer of its locks, and its writes.

The stored state is loaded when the first member fetches from the share partition. The acquisition
of records is not stored, but acknowledgements are. The response to an acknowledgement is sent when
the share coordinator has stored the change. If it cannot be stored, the change is undone, and the
records stay acquired until their lock expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.partitions.partition import Partition
from odradek.broker.share.dead_letters import NoLeader
from odradek.broker.share.persister import Persister
from odradek.broker.share.waiters import Waiters
from odradek.core.share.acknowledgement import AcknowledgementBatch, Change
from odradek.core.share.acquisition import Aborted, Acquired, FetchedBatch, Request
from odradek.core.share.dead_letters import DeadLetters, joined
from odradek.core.share.partition import Phase, SharePartition
from odradek.core.share.passed import Passed
from odradek.core.share.schedule import RecordTime, Schedule, Scheduled
from odradek.core.share.states import RecordState, ShareSettings, StateBatch, combined
from odradek.core.share.window import InvalidState
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.env.clock import Clock
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.read_share_group_state_request import (
    PartitionData as ReadPartition,
)
from odradek.wire.generated.read_share_group_state_request import (
    ReadShareGroupStateRequest,
    ReadStateData,
)
from odradek.wire.generated.read_share_group_state_response import (
    PartitionResult as ReadResult,
)
from odradek.wire.generated.write_share_group_state_request import (
    PartitionData as WritePartition,
)
from odradek.wire.generated.write_share_group_state_request import (
    StateBatch as WrittenBatch,
)
from odradek.wire.generated.write_share_group_state_response import (
    PartitionResult as WriteResult,
)

log: Final = logging.getLogger("odradek.share")

DUE_STEP_MS: Final = 4
"""Records that become due within this time wake fetches together."""
DUE_WAIT_MS_MAX: Final = 60_000
"""After this time the clock is read again, because it may have been set."""

UNINITIALIZED: Final = -1
"""The stored start offset before a member has fetched."""

_NOT_AVAILABLE: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)
_FENCED: Final = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH))
_KEPT: Final = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def member_error(code: int, message: str | None) -> ApiError:
    """Return the error that a member gets for an error of the share coordinator."""
    error = ErrorCode.of(code)
    if error in _NOT_AVAILABLE:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    if error in _FENCED:
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if error in _KEPT:
        return ApiError(error, message)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


class Tasks:
    """Running tasks, in the order of their starts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: dict[asyncio.Task[None], None] = {}

    def run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def close(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class FindStart(Protocol):
    """Finds the offset at which a new share partition begins."""

    async def __call__(self, partition: Partition, group_id: str, /) -> int:
        """Return the offset that `share.auto.offset.reset` of the group determines.

        Raises:
            ApiError: this broker does not lead the partition, or the disk failed.
        """
        ...


class DeadLetterQueue(Protocol):
    """Writes dead letters (see `DeadLetterWriter`)."""

    async def write(
        self, group_id: str, source: Partition, letters: Sequence[DeadLetters], /
    ) -> None:
        """Write dead letters. Failures are logged.

        Raises:
            NoLeader: this broker no longer leads the partition.
        """
        ...


class _Write(NamedTuple):
    """A write that has begun."""

    passed: Passed
    outcome: WriteResult | asyncio.Future[WriteResult]


_Unstored = tuple[Change, asyncio.Future[ApiError | None]]
"""A change that must be stored, and the future of its result."""


class LocalSharePartition:
    """One share group in one partition that this broker leads. Use it only on the loop's thread."""

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        settings: Callable[[], ShareSettings],
        persister: Persister,
        dead_letters: DeadLetterQueue,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        wake: Callable[[Waiters], None],
    ) -> None:
        """See `Waiters` for `wake`."""
        self.group_id = group_id
        self.partition = partition
        self.machine = SharePartition(partition.registration.leader_epoch, settings)
        self.load_error: ApiError | None = None
        """Why the state could not be loaded."""
        self._persister = persister
        self._key = SharePartitionKey(group_id, partition.topic_id, partition.index)
        self._settings = settings
        self._dead_letters = dead_letters
        self._unstored: list[_Unstored] = []
        self._is_storing = False
        self._unwritten: list[DeadLetters] = []
        """Dead letters to write."""
        self._is_burying = False
        self._work: set[asyncio.Task[None]] = set()
        """Tasks that load or write."""
        self._clock = clock
        self._loop = loop
        self._tasks = tasks
        self.waiters = Waiters(partition, self._may_have_records, wake)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        """When the timer runs out."""
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_timer_ms = 0
        """When the next deferred record is due."""
        self.prefers_ready = False
        """Whether the next fetch gets deferred records rather than records of the window."""
        self.expired_count = 0
        """Number of records whose lock has expired (a metric)."""

    # -- loading ------------------------------------------------------------------------------

    def load(
        self,
        find_start: FindStart,
        done: Callable[[LocalSharePartition], None],
        earlier: LocalSharePartition | None = None,
    ) -> None:
        """Load the stored state. Call `done` when it is loaded, or has failed to load.

        `earlier` is the same share partition before it was removed, if it has not finished its
        writes. If it were not waited for, dead letters would be written twice.
        """
        self.machine.begin_loading()

        async def run() -> None:
            if earlier is not None:
                await earlier.settle()
            try:
                await self._load(find_start)
            except ApiError as error:
                self.load_error = error
                self.machine.fail()
            done(self)
            if self.machine.is_active:
                self._bury(self.machine.unfinished_dead_letters())
            self.waiters.notify_all()

        self._begin(run())

    async def _load(self, find_start: FindStart) -> None:
        result = await self._read()
        if result.error_code:
            raise member_error(result.error_code, result.error_message)
        start_offset = result.start_offset
        if start_offset == UNINITIALIZED:
            start_offset = await find_start(self.partition, self.group_id)
        try:
            batches = [
                StateBatch(
                    each.first_offset,
                    each.last_offset,
                    RecordState(each.delivery_state),
                    each.delivery_count,
                )
                for each in result.state_batches
            ]
            self.machine.load(result.state_epoch, start_offset, batches)
        except (InvalidState, ValueError) as error:
            log.error("the state of %s for %s is invalid: %s", self._name, self.group_id, error)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def _read(self) -> ReadResult:
        partition = self.partition
        wanted = ReadPartition(partition=partition.index, leader_epoch=self.machine.leader_epoch)
        response = await self._persister.read(
            ReadShareGroupStateRequest(
                group_id=self.group_id,
                topics=[ReadStateData(topic_id=partition.topic_id, partitions=[wanted])],
            )
        )
        for topic in response.results:
            for result in topic.partitions:
                if topic.topic_id == partition.topic_id and result.partition == partition.index:
                    return result
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

    @property
    def _name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    # -- acquiring ----------------------------------------------------------------------------

    def acquire(
        self,
        request: Request,
        fetch_offset: int,
        batches: Sequence[FetchedBatch],
        aborted: Sequence[Aborted],
    ) -> Acquired:
        """Acquire records, and begin their locks (see `SharePartition.acquire`)."""
        now_ms = self._clock.monotonic_ms()
        acquired = self.machine.acquire(request, fetch_offset, batches, aborted, now_ms)
        self._set_timer()
        return acquired

    def acquire_scheduled(
        self,
        request: Request,
        fetch_offset: int,
        batches: Sequence[FetchedBatch],
        aborted: Sequence[Aborted],
        times: Sequence[RecordTime],
    ) -> Scheduled:
        """Do the same as `acquire`, with regard to the times of the records."""
        schedule = Schedule(self._clock.now_ms(), times)
        now_ms = self._clock.monotonic_ms()
        result = self.machine.acquire_scheduled(
            request, fetch_offset, batches, aborted, now_ms, schedule
        )
        self._on_scheduled(result)
        self.prefers_ready = True
        return result

    def acquire_ready(
        self,
        request: Request,
        offsets: Sequence[int],
        gone: Sequence[int],
        times: Sequence[RecordTime],
    ) -> Scheduled:
        """Acquire deferred records that are ready. The log does not have the records `gone`."""
        self.machine.drop(gone)
        schedule = Schedule(self._clock.now_ms(), times)
        now_ms = self._clock.monotonic_ms()
        result = self.machine.acquire_ready(request, offsets, now_ms, schedule)
        self._on_scheduled(result)
        if offsets:
            self.prefers_ready = False
        return result

    def _on_scheduled(self, result: Scheduled) -> None:
        self._set_timer()
        self._set_due_timer()
        if result.change.transitions:
            self._begin(self._store_expired(result.change))

    # -- deferred records -----------------------------------------------------------------------

    def _set_due_timer(self) -> None:
        """Let the timer run out when the next deferred record is due, or before."""
        due_ms = self.machine.next_due_ms()
        if due_ms is None or self.machine.phase is not Phase.ACTIVE:
            return
        if self._due_timer is not None:
            if self._due_timer_ms <= due_ms:
                return
            self._due_timer.cancel()
        self._due_timer_ms = due_ms
        delay_ms = min(max(DUE_STEP_MS, due_ms - self._clock.now_ms()), DUE_WAIT_MS_MAX)
        self._due_timer = self._loop.call_later(delay_ms / 1000, self._on_due)

    def _on_due(self) -> None:
        self._due_timer = None
        if self.machine.phase is not Phase.ACTIVE:
            return
        if self.machine.on_time(self._clock.now_ms()):
            self.waiters.notify()
        self._set_due_timer()

    def _back_off(self, change: Change) -> None:
        """Let released records wait, if the group wants that."""
        if self._settings().backoff_ms:
            self.machine.back_off(change, self._clock.now_ms())
            self._set_due_timer()

    # -- ending an acquisition ------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> asyncio.Future[ApiError | None] | ApiError | None:
        """Apply a member's acknowledgements.

        Return None if the change is stored, or must not be stored, and the error of the share
        coordinator if the change could not be stored and is undone. If that is not known yet,
        return a future of it.

        Raises:
            ApiError: INVALID_REQUEST or INVALID_RECORD_STATE. Nothing has changed then.
        """
        change = self.machine.acknowledge(member_id, batches, self._clock.monotonic_ms())
        self._set_timer()
        return self._store(change)

    def release(self, member_id: str) -> asyncio.Future[ApiError | None] | ApiError | None:
        """Release all records of a member. The result is that of `acknowledge`.

        Raises:
            ApiError: INVALID_RECORD_STATE. Nothing has changed then.
        """
        return self._store(self.machine.release(member_id))

    def _store(self, change: Change) -> asyncio.Future[ApiError | None] | ApiError | None:
        if not change.transitions:
            return None
        stored: asyncio.Future[ApiError | None]
        if self._is_storing:
            stored = self._loop.create_future()
            self._unstored.append((change, stored))
            return stored
        write = self._begin_write(combined(change.batches))
        if not isinstance(write.outcome, asyncio.Future):
            error = self._end_write(write.passed, write.outcome)
            self._on_stored(change, error)
            self.waiters.notify()
            return error
        stored = self._loop.create_future()
        self._is_storing = True
        self._begin(self._store_all(write, [(change, stored)]))
        return stored

    async def _store_all(self, write: _Write, written: list[_Unstored]) -> None:
        """Finish a write, and store the changes that came meanwhile together, until there are none.

        They concern different records: a record cannot be changed again before it is stored.
        """
        try:
            while True:
                error = await self._finished(write)
                for change, stored in written:
                    self._on_stored(change, error)
                    if not stored.done():
                        stored.set_result(error)
                self.waiters.notify()
                written, self._unstored = self._unstored, []
                if not written:
                    break
                batches = [batch for change, _ in written for batch in change.batches]
                write = self._begin_write(combined(batches))
        finally:
            self._is_storing = False

    def _on_stored(self, change: Change, error: ApiError | None) -> None:
        if error is None:
            self.machine.complete(change)
            self._bury(change.dead_letters)
        else:
            self._bury(self.machine.undo(change))
        self._back_off(change)

    async def _write(self, batches: Sequence[StateBatch]) -> ApiError | None:
        """Store state batches; return the error, if there is one."""
        return await self._finished(self._begin_write(batches))

    def _begin_write(self, batches: Sequence[StateBatch]) -> _Write:
        machine = self.machine
        passed = machine.passed()
        data = WritePartition(
            partition=self.partition.index,
            state_epoch=machine.state_epoch,
            leader_epoch=machine.leader_epoch,
            start_offset=machine.start_offset,
            delivery_complete_count=machine.complete_count,
            state_batches=[
                WrittenBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.state,
                    delivery_count=each.delivery_count,
                )
                for each in (*batches, *passed.batches)
            ],
        )
        return _Write(passed, self._persister.write(self._key, data))

    async def _finished(self, write: _Write) -> ApiError | None:
        outcome = write.outcome
        if isinstance(outcome, asyncio.Future):
            await asyncio.wait((outcome,))  # the write goes on if this task is cancelled
            outcome = outcome.result()
        return self._end_write(write.passed, outcome)

    def _end_write(self, passed: Passed, result: WriteResult) -> ApiError | None:
        if result.error_code:
            return member_error(result.error_code, result.error_message)
        self.machine.on_passed(passed)
        return None

    # -- locks ----------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Let the timer run out when the next lock expires, or before."""
        if self.machine.phase is not Phase.ACTIVE:
            return
        expiration_ms = self.machine.next_expiration_ms()
        if expiration_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= expiration_ms:
                return
            self._timer.cancel()
        delay_ms = max(0, expiration_ms - self._clock.monotonic_ms())
        self._timer_ms = expiration_ms
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.machine.phase is not Phase.ACTIVE:
            return
        change = self.machine.expire(self._clock.monotonic_ms())
        self._set_timer()
        if change.transitions:
            self._back_off(change)
            batches = change.batches
            self.expired_count += sum(b.last_offset - b.first_offset + 1 for b in batches)
            self._begin(self._store_expired(change))
            self.waiters.notify()

    async def _store_expired(self, change: Change) -> None:
        """Store that locks have expired. If this fails, the records are released nevertheless."""
        error = await self._write(combined(change.batches))
        if error is not None:
            log.debug("released records of %s could not be stored: %s", self._name, error)
        if self.machine.advance():
            self.waiters.notify()
        self._bury(change.dead_letters)

    # -- dead letters ---------------------------------------------------------------------------

    def _bury(self, letters: Sequence[DeadLetters]) -> None:
        """Write dead letters, and archive the records after that. Writes follow one another."""
        if not letters:
            return
        self._unwritten += letters
        if not self._is_burying:
            self._is_burying = True
            self._begin(self._bury_all())

    async def _bury_all(self) -> None:
        try:
            while self._unwritten:
                letters, self._unwritten = joined(self._unwritten), []
                await self._dead_letters.write(self.group_id, self.partition, letters)
                batches = self.machine.finish_dead_letters(letters)
                error = await self._write(batches) if batches else None
                if error is not None:
                    log.info("archived records of %s could not be stored: %s", self._name, error)
                if self.machine.advance():
                    self.waiters.notify()
        except NoLeader:
            log.info("the new leader of %s writes its dead letters", self._name)
        finally:
            self._is_burying = False

    def lock_age_ms(self, expiration_ms: int) -> int:
        """Return how long a lock lasts already, if it expires at `expiration_ms`."""
        left_ms = expiration_ms - self._clock.monotonic_ms()
        return max(0, self._settings().record_lock_duration_ms - left_ms)

    # -- waiting requests -----------------------------------------------------------------------

    @property
    def reads_times(self) -> bool:
        """Whether an acquisition needs the times of the records."""
        return self._settings().reads_times

    @property
    def has_ttl(self) -> bool:
        """Whether records are given up after some time."""
        return self._settings().ttl_ms >= 0

    def _may_have_records(self) -> bool:
        if self.machine.has_ready:
            return True
        offset = self.machine.acquirable_from()
        return offset is not None and offset < self.partition.log.high_watermark

    # -- work -----------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._tasks.run(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    @property
    def is_busy(self) -> bool:
        """Whether the state is being loaded or written, or dead letters are."""
        return bool(self._work)

    async def settle(self) -> None:
        """Wait until nothing is loaded or written any more."""
        while self._work:
            await asyncio.wait(set(self._work))

    # -- the end --------------------------------------------------------------------------------

    def fence(self) -> None:
        """Acquire no more records. Writes that have begun go on."""
        self.machine.fence()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        self.waiters.notify_all()
