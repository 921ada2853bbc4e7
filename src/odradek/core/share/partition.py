"""The state machine of one share partition.

The broker performs what the machine decides: it reads the stored state from the share coordinator
(`load`), fetches from `next_fetch_offset`, passes the batches to `acquire`, and writes the batches
of each `Change` to the coordinator. Then it calls `complete` or `undo` for the change. At
`next_expiration_ms` it calls `expire`. When the dead letters of a change are written, it calls
`finish_dead_letters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final

from odradek.core.share import acknowledgement, census, dead_letters, passed, schedule
from odradek.core.share.acknowledgement import (
    Acknowledgement,
    AcknowledgementBatch,
    Change,
)
from odradek.core.share.acquisition import (
    Aborted,
    Acquired,
    Acquisition,
    FetchedBatch,
    Request,
    without_aborted,
)
from odradek.core.share.census import Census
from odradek.core.share.dead_letters import DeadLetters
from odradek.core.share.passed import Passed
from odradek.core.share.schedule import Schedule, Scheduled
from odradek.core.share.states import ShareSettings, StateBatch, combined
from odradek.core.share.window import InvalidState, Window

LOCKS_LIMIT: Final = 10_000
"""The highest value of `share.partition.max.record.locks`."""


class Phase(Enum):
    """Whether a share partition can be used."""

    EMPTY = auto()
    """The stored state has not been requested."""
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    """The stored state could not be loaded."""
    FENCED = auto()
    """This broker no longer leads the partition, or the group has no members."""


class SharePartition:
    """The records in flight of one share group in one partition.

    `settings` returns the current settings of the group.
    """

    def __init__(self, leader_epoch: int, settings: Callable[[], ShareSettings]) -> None:
        self.leader_epoch = leader_epoch
        """The leader epoch in which the state was loaded; writes in an older epoch are fenced."""
        self.state_epoch = 0
        self.phase = Phase.EMPTY
        self._settings = settings
        self._window = Window()
        self._passed_to = 0
        """Up to this offset, the states of complete records among deferred ones are joined."""

    # -- loading ------------------------------------------------------------------------------

    def begin_loading(self) -> None:
        """Note that the stored state has been requested."""
        assert self.phase is Phase.EMPTY
        self.phase = Phase.LOADING

    def load(self, state_epoch: int, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Set the stored state.

        Raises:
            InvalidState: the state is invalid. The share partition has failed.
        """
        try:
            self._window.load(start_offset, batches)
        except InvalidState:
            self.fail()
            raise
        self.state_epoch = state_epoch
        self._passed_to = self._window.start_offset
        if self.phase is not Phase.FENCED:
            self.phase = Phase.ACTIVE

    def fail(self) -> None:
        """Note that the state could not be loaded."""
        if self.phase is not Phase.FENCED:
            self.phase = Phase.FAILED

    def fence(self) -> None:
        """Acquire no more records: the share partition is removed from this broker."""
        self.phase = Phase.FENCED

    # -- reading ------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset that is not complete."""
        first = self._window.deferred.unfinished.first
        start = self._window.start_offset
        return start if first is None else min(first, start)

    @property
    def end_offset(self) -> int:
        """The last offset that was acquired."""
        return self._window.end_offset

    @property
    def complete_count(self) -> int:
        """Number of complete records from the start offset on."""
        window = self._window
        if not window.deferred.unfinished:
            return window.complete_count
        passed = window.start_offset - self.start_offset
        return passed + window.complete_count - window.deferred.incomplete_count

    @property
    def in_flight_count(self) -> int:
        """Number of offsets in the window, and of deferred records that are acquired."""
        return self._window.in_flight_count + len(self._window.deferred.acquired)

    @property
    def batch_count(self) -> int:
        """Number of batches in flight."""
        return len(self._window.batches)

    @property
    def is_active(self) -> bool:
        """Whether records can be acquired and acknowledged."""
        return self.phase is Phase.ACTIVE

    @property
    def is_loading(self) -> bool:
        """Whether the stored state has been requested, and is not here yet."""
        return self.phase is Phase.LOADING

    def acquirable_from(self) -> int | None:
        """Return the offset from which to fetch; None if no record can be acquired now."""
        if self.phase is not Phase.ACTIVE:
            return None
        settings = self._settings()
        if settings.defers or self._window.in_flight_count > LOCKS_LIMIT:
            # A window that was loaded with deferred records may be larger than the limit, and no
            # later record may come.
            self._window.close_gaps()
        if not self._window.can_acquire(settings.record_locks_max):
            return None
        window = self._window
        offset = window.next_fetch_offset()
        if window.deferred.is_full and (not window.batches or offset > window.end_offset):
            return None
        return offset

    def next_expiration_ms(self) -> int | None:
        """Return when to call `expire`; None if no record is acquired."""
        first = self._window.locks.next_expiration_ms()
        if not self._window.deferred.acquired:
            return first
        second = self._window.deferred.locks.next_expiration_ms()
        return second if first is None or (second is not None and second < first) else first

    def states(self) -> list[StateBatch]:
        """Return the states of all batches in flight, for tests and descriptions."""
        return [
            StateBatch(first, last, state.state, state.delivery_count)
            for batch in self._window.batches
            for first, last, state in batch.parts()
        ]

    def census(self) -> Census:
        """Count the records in flight. Any thread may call this."""
        return census.count(self._window)

    # -- acquiring ----------------------------------------------------------------------------

    def acquire(
        self,
        request: Request,
        fetch_offset: int,
        batches: Sequence[FetchedBatch],
        aborted: Sequence[Aborted],
        now_ms: int,
    ) -> Acquired:
        """Acquire records of batches that were read from `fetch_offset` on.

        `aborted` has the aborted transactions in these batches with `read_committed`, else nothing.
        """
        if self.phase is not Phase.ACTIVE or request.records_max <= 0:
            return Acquired([], 0)
        acquisition = Acquisition(self._window, self._settings(), request, batches, now_ms)
        acquired = acquisition.run(fetch_offset)
        if aborted and acquired.records:
            return without_aborted(self._window, acquired, batches, aborted)
        return acquired

    def acquire_scheduled(
        self,
        request: Request,
        fetch_offset: int,
        batches: Sequence[FetchedBatch],
        aborted: Sequence[Aborted],
        now_ms: int,
        times: Schedule,
    ) -> Scheduled:
        """Do the same as `acquire`, with regard to the times of the records."""
        if self.phase is not Phase.ACTIVE or request.records_max <= 0:
            return Scheduled(Acquired([], 0), Change(), False)
        return schedule.acquire(
            self._window,
            self._settings(),
            request,
            fetch_offset,
            batches,
            aborted,
            now_ms,
            times,
        )

    def on_log_start(self, log_start_offset: int) -> None:
        """Note that the log has no records before this offset."""
        self._window.on_log_start(log_start_offset)

    # -- ending an acquisition ------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int
    ) -> Change:
        """Apply a member's acknowledgements.

        Raises:
            ApiError: INVALID_REQUEST or INVALID_RECORD_STATE. Nothing has changed then, except that
                locks may be renewed.
        """
        return Acknowledgement(self._window, self._settings(), member_id, now_ms).run(batches)

    def release(self, member_id: str) -> Change:
        """Release all records that a member has acquired.

        Raises:
            ApiError: INVALID_RECORD_STATE. Nothing has changed then.
        """
        return acknowledgement.release_member(self._window, self._settings(), member_id)

    def expire(self, now_ms: int) -> Change:
        """Release the records whose locks have expired.

        Return the change to store. Call `advance` after that, also if it could not be stored.
        """
        return acknowledgement.expire(self._window, self._settings(), now_ms)

    def advance(self) -> bool:
        """Move the start offset over complete records. Return whether it may have moved."""
        return self._window.advance()

    def complete(self, change: Change) -> bool:
        """Note that a change is stored. Return whether the start offset may have moved."""
        return acknowledgement.complete(self._window, change)

    def undo(self, change: Change) -> list[DeadLetters]:
        """Undo a change that could not be stored.

        Return the records that are dead letters now, because their locks have expired meanwhile.
        """
        return acknowledgement.undo(self._window, change)

    # -- deferred records -------------------------------------------------------------------------

    @property
    def has_ready(self) -> bool:
        """Whether a deferred record may be acquired now."""
        return bool(self.ready(1))

    def ready(self, records_max: int) -> list[int]:
        """Return deferred records that may be acquired now, in the order of their offsets."""
        deferred = self._window.deferred
        if not deferred.ready_count or self.phase is not Phase.ACTIVE:
            return []
        settings = self._settings()
        count = min(records_max, settings.record_locks_max - len(deferred.acquired))
        return deferred.ready(max(0, count), settings.delivery_count_limit)

    def acquire_ready(
        self, request: Request, offsets: Sequence[int], now_ms: int, times: Schedule
    ) -> Scheduled:
        """Acquire records that `ready` has returned. The offsets ascend."""
        if self.phase is not Phase.ACTIVE:
            return Scheduled(Acquired([], 0), Change(), False)
        return schedule.acquire_deferred(
            self._window, self._settings(), request.member_id, offsets, now_ms, times
        )

    def drop(self, offsets: Sequence[int]) -> None:
        """Archive records that `ready` has returned, but which the log does not have any more."""
        self._window.deferred.drop(offsets)

    def back_off(self, change: Change, now_ms: int) -> None:
        """Let the records of a change that are available again wait, as the settings say.

        Call this after `complete`, `undo` and `expire`. `now_ms` is the time since the epoch.
        """
        schedule.back_off(self._window, self._settings(), change, now_ms)

    def next_due_ms(self) -> int | None:
        """Return when to call `on_time`; None if no record waits."""
        return self._window.deferred.next_due_ms

    def on_time(self, now_ms: int) -> bool:
        """Note the time since the epoch. Return whether deferred records became ready."""
        return self._window.deferred.on_time(now_ms)

    def passed(self) -> Passed:
        """Return what must be stored of complete records among deferred ones (see `passed`)."""
        return passed.find(self._window, self._passed_to)

    def on_passed(self, stored: Passed) -> None:
        """Note that the result of `passed` is stored."""
        self._passed_to = max(self._passed_to, stored.end_offset)
        self._window.deferred.on_joined(stored.finished)

    # -- dead letters -----------------------------------------------------------------------------

    def unfinished_dead_letters(self) -> list[DeadLetters]:
        """Return the dead letters that an earlier leader may not have written."""
        return dead_letters.unfinished(self._window, self._settings().delivery_count_limit)

    def finish_dead_letters(self, letters: Iterable[DeadLetters]) -> list[StateBatch]:
        """Archive dead letters that were written, or could not be written.

        Return the states to store. Call `advance` after that, also if they could not be stored.
        """
        return combined(dead_letters.finish(self._window, letters))
