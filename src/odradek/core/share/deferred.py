"""Records that are delivered apart from the window: at a time, or after a back-off.

A record that is not due, or that has to wait after a delivery, is deferred: it leaves the window,
so that it neither holds the window back nor counts as in flight. In the window, its offset counts
as complete. Here it waits until it is due, and is then ready to be acquired.

               due                acquire                 accept, reject
    waiting ────────> ready ──────────────────> acquired ───────────────> finished
       ^                ^                         │   │
       │                └──── release, timeout ───┘   │
       └───────────── release or timeout, with a back-off

The share coordinator stores of deferred records what it stores of other records. The start offset
that is stored is at most the first deferred record that is not finished. So the next leader reads
the log again from there, and defers what is not due again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from odradek.core.share.due_times import DueTimes
from odradek.core.share.in_flight import InFlightState
from odradek.core.share.locks import Locks
from odradek.core.share.offset_set import OffsetSet
from odradek.core.share.states import NO_MEMBER, RecordState
from odradek.wire.generated.share_fetch_response import AcquiredRecords

DEFERRED_MAX: Final = 100_000
"""Number of deferred records from which on the share partition acquires no new records. Their state
must fit into one record of the share coordinator."""


class Deferred:
    """The deferred records of one share partition."""

    def __init__(self) -> None:
        self.count_max = DEFERRED_MAX
        self.unfinished = OffsetSet()
        """The offsets of all deferred records that are not finished."""
        self.locks = Locks()
        self.acquired: dict[int, InFlightState] = {}
        """Records that a member has, or that are becoming dead letters."""
        self._due_times = DueTimes()
        self._ready: dict[int, None] = {}
        """Records that may be acquired, in the order in which they became ready."""
        self._deliveries: dict[int, int] = {}
        """Number of deliveries of the waiting and ready records, if it is not 0."""
        self.finished: set[int] = set()
        """Finished records whose state is not known to be joined with that of their neighbours."""

    # -- reading ------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether no more records should be deferred."""
        return len(self.unfinished) >= self.count_max

    @property
    def ready_count(self) -> int:
        """Number of records that may be acquired."""
        return len(self._ready)

    @property
    def waiting_count(self) -> int:
        """Number of records that are not due."""
        return len(self.unfinished) - len(self._ready) - len(self.acquired)

    def acquired_between(self, first_offset: int, last_offset: int) -> list[int]:
        """Return the records of a range that are acquired, in ascending order."""
        acquired = self.acquired
        if last_offset - first_offset < len(acquired):
            return [each for each in range(first_offset, last_offset + 1) if each in acquired]
        return sorted(each for each in acquired if first_offset <= each <= last_offset)

    @property
    def incomplete_count(self) -> int:
        """Number of records that are neither finished nor about to be."""
        ending = sum(each.state.is_terminal for each in self.acquired.values())
        return len(self.unfinished) - ending

    @property
    def next_due_ms(self) -> int | None:
        """When to call `on_time`; None if no record waits."""
        return self._due_times.next_ms()

    def deliveries(self, offset: int) -> int:
        """Return how often a record that is not acquired was delivered."""
        return self._deliveries.get(offset, 0)

    def ready(self, count: int, delivery_count_limit: int) -> list[int]:
        """Return up to `count` records that may be acquired, in the order of their offsets.

        The last delivery of a record is a delivery of this record alone, because the record may be
        the reason why members fail.
        """
        found: list[int] = []
        for offset in islice(self._ready, count):
            is_last = delivery_count_limit > 2 and (
                self.deliveries(offset) >= delivery_count_limit - 1
            )
            if is_last:
                return sorted(found) if found else [offset]
            found.append(offset)
        return sorted(found)

    # -- changing -----------------------------------------------------------------------------

    def add(self, offset: int, due_ms: int, deliveries: int) -> None:
        """Let a record wait until it is due. It was delivered so often."""
        assert offset not in self.unfinished
        self.unfinished.add(offset)
        if deliveries:
            self._deliveries[offset] = deliveries
        self._due_times.add(due_ms, offset)

    def on_time(self, now_ms: int) -> bool:
        """Note the time. Return whether a record became ready."""
        before = len(self._ready)
        for offset in self._due_times.pop(now_ms):
            if offset in self.unfinished:  # else retention has removed it
                self._ready[offset] = None
        return len(self._ready) > before

    def acquire(
        self, offsets: Iterable[int], member_id: str, expiration_ms: int
    ) -> list[AcquiredRecords]:
        """Deliver ready records to a member. The offsets ascend."""
        ranges: list[AcquiredRecords] = []
        for offset in offsets:
            del self._ready[offset]
            state = InFlightState(RecordState.AVAILABLE, self._deliveries.pop(offset, 0), NO_MEMBER)
            state.acquire(member_id, self.locks.add(offset, offset, expiration_ms))
            self.acquired[offset] = state
            last = ranges[-1] if ranges else None
            if (
                last is not None
                and last.last_offset + 1 == offset
                and last.delivery_count == state.delivery_count
            ):
                last.last_offset = offset
            else:
                ranges.append(
                    AcquiredRecords(
                        first_offset=offset,
                        last_offset=offset,
                        delivery_count=state.delivery_count,
                    )
                )
        return ranges

    def settle(self, offset: int, state: InFlightState) -> None:
        """Note that the acquisition of a record has ended: it is ready again, or finished."""
        if self.acquired.get(offset) is not state or state.in_transition:
            return
        if state.state is RecordState.AVAILABLE:
            del self.acquired[offset]
            self._deliveries[offset] = state.delivery_count
            self._ready[offset] = None
        elif state.state.is_terminal:
            del self.acquired[offset]
            self._finish(offset)

    def back_off(self, offset: int, due_ms: int) -> None:
        """Let a ready record wait."""
        if offset in self._ready:
            del self._ready[offset]
            self._due_times.add(due_ms, offset)

    def drop(self, offsets: Sequence[int]) -> None:
        """Finish ready records that the log does not have any more."""
        for offset in offsets:
            if self._ready.pop(offset, self) is not self:
                self._deliveries.pop(offset, None)
                self._finish(offset)

    def remove_before(self, log_start_offset: int) -> None:
        """Remove the records before the start of the log."""
        for offset in self.unfinished.remove_before(log_start_offset):
            self._ready.pop(offset, None)
            self._deliveries.pop(offset, None)
            state = self.acquired.pop(offset, None)
            if state is not None:
                state.drop_lock()

    def _finish(self, offset: int) -> None:
        self.unfinished.discard(offset)
        self.finished.add(offset)

    def on_joined(self, offsets: Iterable[int]) -> None:
        """Note that the states of these finished records are stored with their neighbours'."""
        self.finished.difference_update(offsets)
