"""The records of a share partition between its start offset and its end offset.

All records before the start offset are complete: acknowledged or archived. No record after the end
offset was ever acquired. If there are no batches, both offsets are the next offset to fetch. The
start offset advances when the records at the start are complete, or when the log start offset has
passed it.

The share coordinator stores only what was acknowledged. After a change of the leader there may thus
be gaps between the stored batches. The records in these gaps were acquired and not acknowledged,
and must be delivered again. The gap window has the offsets at which such gaps may be.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.share.batches import Batches
from odradek.core.share.deferred import Deferred
from odradek.core.share.in_flight import InFlightBatch, InFlightState
from odradek.core.share.locks import Locks
from odradek.core.share.states import NO_MEMBER, RecordState, StateBatch


class InvalidState(Exception):
    """The stored state of a share partition is invalid."""


class Window:
    """The offsets and the batches in flight of one share partition."""

    def __init__(self) -> None:
        self.batches = Batches()
        self.locks = Locks()
        self.deferred = Deferred()
        """Records that are delivered apart. In the window they are ARCHIVED."""
        self.start_offset = 0
        self.end_offset = 0
        self.complete_count = 0
        """Number of complete records in the window (Kafka's `deliveryCompleteCount`)."""
        self._may_have_available = False
        """Whether a record of the window may be available (Kafka's `findNextFetchOffset`)."""
        self._gap_start: int | None = None
        """The next offset at which there may be a gap; None if there is none."""
        self._gap_end = -1
        """The end offset that the window had when it was loaded."""

    # -- loading ------------------------------------------------------------------------------

    def load(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Set the stored state.

        Raises:
            InvalidState: a batch is empty, or begins before the start offset.
        """
        self.start_offset = start_offset
        previous = start_offset - 1
        gap_start: int | None = None
        for batch in batches:
            if batch.first_offset < start_offset or batch.last_offset < batch.first_offset:
                raise InvalidState(f"invalid batch {batch}; the start offset is {start_offset}")
            if gap_start is None and batch.first_offset > previous + 1:
                gap_start = previous + 1
            previous = batch.last_offset
            state = InFlightState(batch.state, batch.delivery_count, NO_MEMBER)
            in_flight = InFlightBatch(batch.first_offset, batch.last_offset, state)
            self.batches.add(in_flight)
            if batch.state.is_terminal:
                self.complete_count += len(in_flight)
        if not self.batches:
            self.end_offset = start_offset
            return
        self._may_have_available = True
        self.end_offset = self.batches.last.last_offset
        self._gap_start = gap_start
        self._gap_end = self.end_offset
        self.advance()

    # -- reading ------------------------------------------------------------------------------

    @property
    def has_gaps(self) -> bool:
        """Whether there may be gaps. After an acquisition past the loaded end there are none."""
        return self._gap_start is not None and self._gap_end == self.end_offset

    @property
    def in_flight_count(self) -> int:
        """Number of offsets in the window."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def _is_passed(self) -> bool:
        """Whether the start offset is after all batches, or there are no batches."""
        return not self.batches or self.start_offset > self.batches.last.last_offset

    def next_fetch_offset(self) -> int:
        """Return the offset of the first available record."""
        if self._is_passed:
            self._may_have_available = False
            return self.end_offset
        if not self._may_have_available:
            return self.end_offset + 1
        offset = self._first_available()
        if offset is None:
            self._may_have_available = False
            return self.end_offset + 1
        return offset

    def _first_available(self) -> int | None:
        gap_start = self._gap_start if self.has_gaps else None
        for batch in self.batches:
            if gap_start is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            if batch.offsets is None:
                assert batch.whole is not None
                if batch.whole.is_acquirable:
                    return batch.first_offset
            else:
                for index, state in enumerate(batch.offsets):
                    if state.is_acquirable:
                        return batch.first_offset + index
        return None

    def can_acquire(self, records_max: int) -> bool:
        """Return whether a record is available, or a new one fits into the window."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < records_max

    def count_from_start(self, first_offset: int, last_offset: int) -> int:
        """Return how many offsets of this range are not before the start offset."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    def begins_in(self, batch: InFlightBatch) -> bool:
        """Return whether the start offset is in the batch, but is not its first offset."""
        return batch.first_offset < self.start_offset <= batch.last_offset

    # -- changing -----------------------------------------------------------------------------

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch that was acquired."""
        self.batches.add(batch)

    def on_available(self) -> None:
        """Note that a record may have become available."""
        self._may_have_available = True

    def count_complete(self, difference: int) -> None:
        """Change the number of complete records."""
        self.complete_count += difference

    def on_acquired_new(self, first_offset: int, last_offset: int) -> None:
        """Note that new batches were added for this range."""
        if self.batches.first.first_offset == first_offset:
            self.start_offset = first_offset
        self.end_offset = max(self.end_offset, last_offset)

    def on_acquired(self, last_offset: int) -> None:
        """Note that the records up to this offset are acquired: gaps before it are closed."""
        if self._gap_start is None:
            return
        if self._gap_end == self.end_offset and last_offset + 1 <= self._gap_end:
            self._gap_start = last_offset + 1
        else:
            self._gap_start = None

    def close_gaps(self) -> bool:
        """Note that there are no gaps, if there are none. Return whether the start offset moves.

        Kafka notes this only when records after the end offset are acquired.
        """
        if not self.has_gaps or self._first_available() is not None:
            return False
        self._gap_start = None
        return self.advance()

    def archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Archive available records that compaction has removed.

        `fetch_offset` was read, and the log has no record from it to `base_offset`.
        """
        if not self.batches or fetch_offset >= base_offset:
            return
        first = fetch_offset
        floor = self.batches.floor(fetch_offset)
        if floor is not None and floor.last_offset >= fetch_offset:
            first = floor.first_offset
        batches = self.batches.between(first, base_offset - 1)
        if self.archive(fetch_offset, base_offset, batches, RecordState.AVAILABLE):
            self._may_have_available = True

    def on_log_start(self, log_start_offset: int) -> None:
        """Move the start offset, because the log has no records before this offset any more.

        Available records before it are archived. Acquired ones are archived when their acquisition
        ends. The share coordinator learns of the new start offset with the next write.
        """
        self.deferred.remove_before(log_start_offset)
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        removed = self._complete_before(log_start_offset)
        if self.archive(
            self.start_offset,
            log_start_offset,
            self.batches,
            RecordState.AVAILABLE,
            count_complete=False,
        ):
            self._may_have_available = True
        self.start_offset = log_start_offset
        self.complete_count -= removed
        self.end_offset = max(self.end_offset, log_start_offset)

    def _complete_before(self, offset: int) -> int:
        """Return the number of complete records from the start offset to `offset`."""
        count = 0
        for batch in self.batches:
            if batch.first_offset >= offset:
                break
            if batch.last_offset < self.start_offset:
                continue
            if batch.offsets is None:
                assert batch.whole is not None
                if batch.whole.state.is_terminal:
                    last = min(offset - 1, batch.last_offset)
                    count += self.count_from_start(batch.first_offset, last)
            else:
                for index, state in enumerate(batch.offsets, batch.first_offset):
                    if self.start_offset <= index < offset and state.state.is_terminal:
                        count += 1
        return count

    def archive(
        self,
        first: int,
        end: int,
        batches: Iterable[InFlightBatch],
        from_state: RecordState,
        *,
        count_complete: bool = True,
    ) -> bool:
        """Archive the records from `first` to `end` (exclusive) that are in this state.

        Return whether a record was archived.
        """
        archived = 0
        for batch in batches:
            if batch.first_offset >= end:
                break
            is_covered = batch.first_offset >= first and batch.last_offset < end
            if batch.offsets is None:
                assert batch.whole is not None
                if batch.whole.state is not from_state:
                    continue
                if is_covered:
                    batch.whole.archive()
                    archived += len(batch)
                    continue
            states = batch.split(self.locks)
            for offset, state in enumerate(states, batch.first_offset):
                if first <= offset < end and state.state is from_state:
                    state.archive()
                    archived += 1
        if count_complete:
            self.complete_count += archived
        return archived > 0

    def advance(self) -> bool:
        """Remove complete records at the start. Return whether the start offset may have moved."""
        if not self._start_is_complete():
            return False
        last, count = self._last_complete()
        if last is None:
            return False
        last_batch = self.batches.last
        if last == last_batch.last_offset:
            self.start_offset = self.end_offset = last + 1
            self.batches.clear()
            self.complete_count = 0
            return True
        batch = self.batches.floor(last)
        assert batch is not None
        if last == batch.last_offset:
            after = self.batches.after(last)
            assert after is not None
            self.start_offset = max(self.start_offset, after.first_offset)
            if self.has_gaps:
                assert self._gap_start is not None
                self.start_offset = min(self._gap_start, self.start_offset)
            self.batches.remove_before(last + 1)
        else:
            self.start_offset = max(self.start_offset, last + 1)
            self.batches.remove_before(batch.first_offset)
        self.complete_count -= count
        return True

    def _start_is_complete(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        if batch is None:  # there is a gap at the start, or there are no batches
            return False
        if batch.offsets is not None and batch.last_offset < self.start_offset:
            return False
        return batch.state_at(self.start_offset).is_complete

    def _last_complete(self) -> tuple[int | None, int]:
        """Return the last offset of the complete records at the start, and how many there are.

        Records before the start offset do not count. The offset is None if there are none.
        """
        last: int | None = None
        count = 0
        for batch in self.batches:
            if self.has_gaps:
                assert self._gap_start is not None
                if batch.last_offset >= self._gap_start:
                    return last, count
            if batch.offsets is None:
                assert batch.whole is not None
                if not batch.whole.is_complete:
                    return last, count
                last = batch.last_offset
                count += self.count_from_start(batch.first_offset, last)
            else:
                for offset, state in enumerate(batch.offsets, batch.first_offset):
                    if not state.is_complete:
                        return last, count
                    last = offset
                    if offset >= self.start_offset:
                        count += 1
        return last, count
