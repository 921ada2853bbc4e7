"""Acquires records of a share partition for a member.

A fetch reads batches of the log from the next fetch offset on. Records of these batches that are in
flight and available are acquired again, in the batches in which they were acquired before. Records
after the end offset, and in gaps, are acquired in new batches.

- By default, whole batches of the log are acquired, so that a response may have more records than
  the member has requested ("batch optimized"). New records are divided into batches of about
  `batch_size` records, at batch boundaries of the log.
- With a record limit (KIP-1206) exactly as many records are acquired as the member has requested,
  if there are enough.
- If a record was delivered often, it may be the reason why members fail. The other records of its
  batch would then reach the limit of deliveries too. Therefore records that were delivered often
  are delivered in smaller and smaller batches. The last delivery of a record contains only this
  record.
- With `read_committed`, records of aborted transactions are archived instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.core.share.in_flight import InFlightBatch, InFlightState
from odradek.core.share.states import RecordState, ShareSettings
from odradek.core.share.window import Window
from odradek.wire.generated.share_fetch_response import AcquiredRecords


class FetchedBatch(NamedTuple):
    """What a share partition must know of a record batch of the log."""

    base_offset: int
    last_offset: int
    size: int
    """Size in bytes."""
    producer_id: int
    is_transactional: bool
    is_abort_marker: bool


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int


class Request(NamedTuple):
    """What a member wants to acquire."""

    member_id: str
    is_record_limit: bool
    """Whether `records_max` is exact (KIP-1206)."""
    batch_size: int
    records_max: int


class Acquired(NamedTuple):
    """The acquired records, and their number."""

    records: list[AcquiredRecords]
    total: int


def throttled_from(delivery_count_limit: int) -> int:
    """Return the delivery count from which on records are delivered in smaller batches."""
    return max(2, -(-delivery_count_limit // 2))


class Acquisition:
    """One acquisition. Create it, and call `run` once."""

    def __init__(
        self,
        window: Window,
        settings: ShareSettings,
        request: Request,
        batches: Sequence[FetchedBatch],
        now_ms: int,
    ) -> None:
        self._window = window
        self._settings = settings
        self._request = request
        self._batches = batches
        self._expiration_ms = now_ms + settings.record_lock_duration_ms
        self._acquired: list[AcquiredRecords] = []
        self._count = 0

    def run(self, fetch_offset: int) -> Acquired:
        """Acquire records of batches that were read from `fetch_offset` on."""
        window, batches = self._window, self._batches
        if not batches or batches[-1].last_offset < window.start_offset:
            return Acquired([], 0)
        last_offset, records_max = self._limits(fetch_offset)
        if records_max <= 0:
            return Acquired([], 0)
        read_from = batches[0].base_offset
        window.archive_missing(fetch_offset, read_from)
        base_offset = read_from
        floor = window.batches.floor(base_offset)
        if floor is None:
            # The log's batch may begin before the start offset after a change of the leader.
            base_offset = max(base_offset, window.start_offset)
        elif floor.last_offset >= base_offset:
            base_offset = floor.first_offset
        in_flight = window.batches.between(min(read_from, base_offset), last_offset)
        if not in_flight:
            if last_offset >= base_offset:
                self._acquire_new(base_offset, last_offset, records_max)
            return Acquired(self._acquired, self._count)
        self._acquire_in_flight(in_flight, base_offset, last_offset, records_max)
        if self._acquired:
            window.on_acquired(self._acquired[-1].last_offset)
        return Acquired(self._acquired, self._count)

    def _limits(self, fetch_offset: int) -> tuple[int, int]:
        """Return the last offset that may be acquired, and the maximum number of records.

        If the window is full, only records in the window may be acquired.
        """
        window, request = self._window, self._request
        last_offset = self._batches[-1].last_offset
        room = self._settings.record_locks_max - window.in_flight_count
        records_max = min(request.records_max, room)
        if records_max <= 0 and fetch_offset <= window.end_offset:
            records_max = min(request.records_max, window.end_offset - fetch_offset + 1)
            last_offset = min(last_offset, window.end_offset)
        return last_offset, records_max

    # -- records in flight ----------------------------------------------------------------------

    def _acquire_in_flight(
        self, in_flight: list[InFlightBatch], base_offset: int, last_offset: int, records_max: int
    ) -> None:
        """Acquire available records of these batches, records in gaps, and those after them."""
        window = self._window
        gap_start = base_offset
        for batch in in_flight:
            if self._count >= records_max:
                break
            if window.has_gaps:
                if gap_start < batch.first_offset:
                    self._acquire_new(gap_start, batch.first_offset - 1, records_max - self._count)
                gap_start = batch.last_offset + 1
                if self._count >= records_max:
                    break
            is_throttled = self._is_throttled(batch, last_offset)
            if is_throttled and self._count > 0:
                return
            before = self._count
            self._acquire_batch(batch, last_offset, records_max, is_throttled)
            if is_throttled and self._count > before:
                return
        after = in_flight[-1].last_offset + 1
        if self._count < records_max and after <= last_offset:
            self._acquire_new(after, last_offset, records_max - self._count)

    def _acquire_batch(
        self, batch: InFlightBatch, last_offset: int, records_max: int, is_throttled: bool
    ) -> None:
        """Acquire the available records of a batch."""
        left = records_max - self._count
        read_from = self._batches[0].base_offset
        is_covered = batch.first_offset >= read_from and batch.last_offset <= last_offset
        exceeds_limit = self._request.is_record_limit and len(batch) > left
        whole = batch.whole
        if whole is not None and not whole.is_acquirable:
            return
        if whole is None or not is_covered or exceeds_limit or is_throttled:
            self._acquire_offsets(batch, read_from, last_offset, left)
            return
        whole.acquire(
            self._request.member_id,
            self._window.locks.add(batch.first_offset, batch.last_offset, self._expiration_ms),
        )
        self._acquired.append(
            AcquiredRecords(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_count=whole.delivery_count,
            )
        )
        self._count += len(batch)

    def _acquire_offsets(
        self, batch: InFlightBatch, first_offset: int, last_offset: int, left: int
    ) -> None:
        """Acquire single offsets of a batch from `first_offset` to `last_offset`."""
        locks, member_id = self._window.locks, self._request.member_id
        limit = self._settings.delivery_count_limit
        throttled = throttled_from(limit)
        states = batch.split(locks)
        throttled_max: int | None = None
        ranges: list[AcquiredRecords] = []
        count = 0
        for offset, state in enumerate(states, batch.first_offset):
            if offset < first_offset:
                continue
            if offset > last_offset:
                break
            if not state.is_acquirable:
                continue
            deliveries = state.delivery_count
            if limit > 2 and deliveries == limit - 1 and count > 0:
                break  # the last delivery of this record is a delivery of this record alone
            if deliveries >= throttled and throttled_max is None:
                throttled_max = max(1, len(states) >> (deliveries - throttled + 1))
            state.acquire(member_id, locks.add(offset, offset, self._expiration_ms))
            _append(ranges, offset, state)
            count += 1
            if (
                (limit > 2 and state.delivery_count == limit)
                or (self._request.is_record_limit and count == left)
                or count == throttled_max
            ):
                break
        self._acquired += ranges
        self._count += count

    def _is_throttled(self, batch: InFlightBatch, last_offset: int) -> bool:
        """Return whether an available record of the batch was delivered often."""
        throttled = throttled_from(self._settings.delivery_count_limit)
        if batch.offsets is None:
            whole = batch.whole
            assert whole is not None
            return whole.is_acquirable and whole.delivery_count >= throttled
        read_from = self._batches[0].base_offset
        return any(
            state.is_acquirable and state.delivery_count >= throttled
            for offset, state in enumerate(batch.offsets, batch.first_offset)
            if read_from <= offset <= last_offset
        )

    # -- new records ----------------------------------------------------------------------------

    def _acquire_new(self, first_offset: int, last_offset: int, records_max: int) -> None:
        """Acquire records that are not in flight."""
        window = self._window
        if not window.batches:
            # The batch of the log was read before, and its first records are complete.
            first_offset = max(first_offset, window.end_offset)
        last = last_offset
        if records_max < last - first_offset + 1:
            last = self._batch_end(first_offset + records_max - 1)
            if window.has_gaps:
                last = min(last, last_offset)
        if self._request.is_record_limit:
            acquired = [self._acquire_limited(first_offset, last, records_max)]
        else:
            acquired = self._acquire_batches(first_offset, last)
        window.on_acquired_new(first_offset, last)
        if self._request.is_record_limit:
            last = acquired[0].last_offset
        window.on_acquired(last)
        self._acquired += acquired
        self._count += last - first_offset + 1

    def _batch_end(self, offset: int) -> int:
        """Return the last offset of the log's batch that contains `offset`; else `offset`."""
        for batch in reversed(self._batches):
            if batch.base_offset <= offset:
                return max(batch.last_offset, offset)
        return offset

    def _acquire_batches(self, first_offset: int, last_offset: int) -> list[AcquiredRecords]:
        """Acquire all offsets, in batches of about the requested size."""
        result = []
        first = first_offset
        size = self._request.batch_size
        if last_offset - first_offset + 1 > size:
            for batch in self._batches:
                if batch.base_offset > last_offset:
                    break
                if batch.base_offset - first >= size:
                    result.append(self._add_batch(first, batch.base_offset - 1))
                    first = batch.base_offset
        result.append(self._add_batch(first, last_offset))
        return result

    def _add_batch(self, first_offset: int, last_offset: int) -> AcquiredRecords:
        lock = self._window.locks.add(first_offset, last_offset, self._expiration_ms)
        state = InFlightState(RecordState.ACQUIRED, 1, self._request.member_id, lock)
        self._window.add(InFlightBatch(first_offset, last_offset, state))
        return AcquiredRecords(first_offset=first_offset, last_offset=last_offset, delivery_count=1)

    def _acquire_limited(
        self, first_offset: int, last_offset: int, records_max: int
    ) -> AcquiredRecords:
        """Acquire at most `records_max` offsets. The others of the batch become available."""
        if last_offset - first_offset + 1 <= records_max:
            return self._add_batch(first_offset, last_offset)
        window = self._window
        last = first_offset + records_max - 1
        state = InFlightState(RecordState.ACQUIRED, 1, self._request.member_id)
        batch = InFlightBatch(first_offset, last_offset, state)
        batch.acquire_part(last, window.locks, self._expiration_ms)
        window.on_available()
        window.add(batch)
        return AcquiredRecords(first_offset=first_offset, last_offset=last, delivery_count=1)


def _append(ranges: list[AcquiredRecords], offset: int, state: InFlightState) -> None:
    """Append an offset to the last range, or begin a new range."""
    if ranges:
        last = ranges[-1]
        if last.last_offset + 1 == offset and last.delivery_count == state.delivery_count:
            last.last_offset = offset
            return
    ranges.append(
        AcquiredRecords(
            first_offset=offset, last_offset=offset, delivery_count=state.delivery_count
        )
    )


# -- aborted transactions -----------------------------------------------------------------------


def without_aborted(
    window: Window,
    acquired: Acquired,
    batches: Sequence[FetchedBatch],
    aborted: Sequence[Aborted],
) -> Acquired:
    """Archive acquired records of aborted transactions, and return the others."""
    archived = aborted_batches(batches, aborted)
    if not archived:
        return acquired
    for batch in archived:
        floor = window.batches.floor(batch.base_offset)
        first = batch.base_offset if floor is None else floor.first_offset
        in_flight = window.batches.between(first, batch.last_offset)
        window.archive(batch.base_offset, batch.last_offset + 1, in_flight, RecordState.ACQUIRED)
    records = acquired.records
    for batch in archived:
        records = [part for each in records for part in _subtract(each, batch)]
    return Acquired(records, sum(each.last_offset - each.first_offset + 1 for each in records))


def aborted_batches(
    batches: Sequence[FetchedBatch], aborted: Sequence[Aborted]
) -> list[FetchedBatch]:
    """Return the batches that belong to an aborted transaction."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    producers: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            producers.add(waiting.pop().producer_id)
        if batch.is_abort_marker:
            producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.append(batch)
    return found


def _subtract(records: AcquiredRecords, batch: FetchedBatch) -> list[AcquiredRecords]:
    """Return the parts of acquired records that are not in the batch."""
    first, last = records.first_offset, records.last_offset
    if last < batch.base_offset or first > batch.last_offset:
        return [records]
    parts = []
    if first < batch.base_offset:
        parts.append((first, batch.base_offset - 1))
    if last > batch.last_offset:
        parts.append((batch.last_offset + 1, last))
    return [
        AcquiredRecords(first_offset=begin, last_offset=end, delivery_count=records.delivery_count)
        for begin, end in parts
    ]
