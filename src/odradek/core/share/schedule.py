"""Decides when records are delivered, by their times and by the settings of the group.

These are extensions of KIP-932 that Apache Kafka does not have:

- Delay: the header `odradek.deliver.at` of a record says when share groups may deliver it, in
  milliseconds since the epoch. Until then the record is deferred (see `deferred`).
- Time to live: a record that was not delivered within `ttl_ms` is given up. The time begins when
  the record may be delivered, or with its timestamp.
- Back-off: a record whose acquisition has ended without success is deferred for a while.

The first two need the times of the records that were fetched. The broker reads them only if the
settings of the group need them (`ShareSettings.reads_times`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.core.share.acknowledgement import Change
from odradek.core.share.acquisition import (
    Aborted,
    Acquired,
    Acquisition,
    FetchedBatch,
    Request,
    aborted_batches,
    without_aborted,
)
from odradek.core.share.dead_letters import Cause
from odradek.core.share.in_flight import InFlightState
from odradek.core.share.states import RecordState, ShareSettings
from odradek.core.share.window import Window
from odradek.records.record import Headers
from odradek.wire.generated.share_fetch_response import AcquiredRecords

HEADER: Final = "odradek.deliver.at"
NO_TIME: Final = -1
_TIME_MAX_MS: Final = 2**62
_DIGITS_MAX: Final = 20
DEFERRED_AT_ONCE: Final = 2_000
"""Number of records of whole batches that are deferred in one acquisition, or a few more."""


def deliver_at_ms(headers: Headers) -> int:
    """Return the time in the last header of this name; -1 if there is none, or no valid one."""
    for name, value in reversed(headers):
        if name == HEADER:
            if value is not None and value.isdigit() and len(value) < _DIGITS_MAX:
                return min(int(value), _TIME_MAX_MS)
            return NO_TIME
    return NO_TIME


class RecordTime(NamedTuple):
    """The times of a record, in milliseconds since the epoch."""

    offset: int
    timestamp_ms: int
    deliver_at_ms: int
    """When the record may be delivered; -1 if it has no such header."""

    @property
    def begin_ms(self) -> int:
        """When the time to live of the record begins."""
        return self.timestamp_ms if self.deliver_at_ms == NO_TIME else self.deliver_at_ms


class Schedule(NamedTuple):
    """The times of fetched records, in ascending order of their offsets.

    Records without a header may be missing if the group has no time to live.
    """

    now_ms: int
    """Milliseconds since the epoch."""
    times: Sequence[RecordTime]

    def expired(self, ttl_ms: int) -> set[int]:
        """Return the offsets of the records whose time to live is over."""
        if ttl_ms < 0:
            return set()
        return {each.offset for each in self.times if each.begin_ms + ttl_ms <= self.now_ms}

    def not_due(self) -> dict[int, int]:
        """Return the offsets of the records that are not due, and when they are."""
        now_ms = self.now_ms
        return {e.offset: e.deliver_at_ms for e in self.times if e.deliver_at_ms > now_ms}


class Scheduled(NamedTuple):
    """The result of an acquisition."""

    acquired: Acquired
    change: Change
    """Records whose time to live is over. To be stored as after a timeout."""
    has_deferred: bool
    """Whether records were deferred. If nothing was acquired, other records may follow them."""


def acquire(
    window: Window,
    settings: ShareSettings,
    request: Request,
    fetch_offset: int,
    batches: Sequence[FetchedBatch],
    aborted: Sequence[Aborted],
    now_ms: int,
    schedule: Schedule,
) -> Scheduled:
    """Acquire the records of batches that are due, and defer the others.

    `now_ms` is the time of the locks.
    """
    not_due = schedule.not_due() if settings.delays else {}
    begun = [] if aborted else _leading(window, batches, not_due)
    if begun:
        count = begun[-1].last_offset - begun[0].base_offset + 1
        everything = Request(request.member_id, False, count, count)
        acquired = Acquisition(window, settings, everything, begun, now_ms).run(fetch_offset)
        is_deferred = _defer(window, acquired, not_due)
        return Scheduled(Acquired([], 0), Change(), is_deferred)
    acquired = Acquisition(window, settings, request, batches, now_ms).run(fetch_offset)
    if aborted:
        acquired = without_aborted(window, acquired, batches, aborted)
        for batch in aborted_batches(batches, aborted) if not_due else ():
            for offset in range(batch.base_offset, batch.last_offset + 1):
                not_due.pop(offset, None)
    has_deferred = _defer(window, acquired, not_due)
    if has_deferred:
        acquired = _without(acquired, not_due)
    change = Change()
    gone = schedule.expired(settings.ttl_ms)
    if gone:
        _give_up(window, settings, acquired, gone, change)
        acquired = _without(acquired, gone)
    return Scheduled(acquired, change, has_deferred)


def _leading(
    window: Window, batches: Sequence[FetchedBatch], not_due: dict[int, int]
) -> list[FetchedBatch]:
    """Return the batches at the beginning that have only records that are not due."""
    found: list[FetchedBatch] = []
    count = 0
    for batch in batches if not_due else ():
        first = max(batch.base_offset, window.start_offset)
        if count >= DEFERRED_AT_ONCE or not all(
            offset in not_due for offset in range(first, batch.last_offset + 1)
        ):
            break
        count += batch.last_offset - first + 1
        found.append(batch)
    return found


def _defer(window: Window, acquired: Acquired, not_due: dict[int, int]) -> bool:
    """Defer the records that were just acquired or that are available. Return whether there were
    such records."""
    if not not_due:
        return False
    mine = _offsets(acquired)
    has_deferred = False
    for first, last in _runs(not_due):
        for begin, end, state in _parts(window, first, last):
            is_mine = state.state is RecordState.ACQUIRED and begin in mine
            if not (is_mine or state.is_acquirable):
                continue
            _move(window, begin, end, state, not_due, state.delivery_count - is_mine)
            has_deferred = True
    if has_deferred:
        window.on_available()
        window.advance()
    return has_deferred


def _move(
    window: Window,
    first: int,
    last: int,
    state: InFlightState,
    due_ms: dict[int, int],
    deliveries: int,
) -> None:
    """Move records with one state from the window to the deferred records."""
    state.archive()
    window.count_complete(window.count_from_start(first, last))
    for offset in range(max(first, window.start_offset), last + 1):
        window.deferred.add(offset, due_ms[offset], deliveries)


def _give_up(
    window: Window,
    settings: ShareSettings,
    acquired: Acquired,
    gone: set[int],
    change: Change,
) -> None:
    """Give up acquired records."""
    given_up = settings.limit.given_up
    mine = _offsets(acquired)
    for first, last in _runs(gone & mine):
        for begin, end, state in _parts(window, first, last):
            state.give_up(given_up)
            change.add(state, begin, end, Cause.EXPIRED)
            if state.state.is_terminal:
                window.count_complete(window.count_from_start(begin, end))


def acquire_deferred(
    window: Window,
    settings: ShareSettings,
    member_id: str,
    offsets: Sequence[int],
    now_ms: int,
    schedule: Schedule,
) -> Scheduled:
    """Acquire deferred records that are ready. The offsets ascend."""
    deferred = window.deferred
    acquired = deferred.acquire(offsets, member_id, now_ms + settings.record_lock_duration_ms)
    result = Acquired(acquired, len(offsets))
    change = Change()
    gone = schedule.expired(settings.ttl_ms).intersection(offsets)
    for offset in sorted(gone):
        state = deferred.acquired[offset]
        state.give_up(settings.limit.given_up)
        change.add(state, offset, offset, Cause.EXPIRED)
        deferred.settle(offset, state)
    return Scheduled(_without(result, gone) if gone else result, change, False)


def back_off(window: Window, settings: ShareSettings, change: Change, now_ms: int) -> None:
    """Defer the records of a change that are available again. `now_ms` is since the epoch."""
    deferred = window.deferred
    for state, (first, last, _, _) in change.transitions:
        if not state.is_acquirable:
            continue
        due_ms = now_ms + backoff_ms(settings, state.delivery_count)
        if first in deferred.unfinished:
            deferred.back_off(first, due_ms)
            continue
        due = dict.fromkeys(range(first, last + 1), due_ms)
        for begin, end, each in _parts(window, first, last):
            if each.is_acquirable:
                _move(window, begin, end, each, due, each.delivery_count)
    window.advance()


def backoff_ms(settings: ShareSettings, delivery_count: int) -> int:
    """Return how long a record waits that was delivered so often."""
    begin_ms = settings.backoff_ms
    return min(begin_ms << max(0, delivery_count - 1), max(begin_ms, settings.backoff_max_ms))


# -- ranges ---------------------------------------------------------------------------------------


def _offsets(acquired: Acquired) -> set[int]:
    return {
        offset
        for each in acquired.records
        for offset in range(each.first_offset, each.last_offset + 1)
    }


def _runs(offsets: set[int] | dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last offsets of consecutive offsets."""
    first = last = None
    for offset in sorted(offsets):
        if first is None or last is None:
            first = offset
        elif offset != last + 1:
            yield first, last
            first = offset
        last = offset
    if first is not None and last is not None:
        yield first, last


def _parts(window: Window, first: int, last: int) -> Iterator[tuple[int, int, InFlightState]]:
    """Yield the states of a range in the window. Batches at its ends are split."""
    floor = window.batches.floor(first)
    begin = first if floor is None else floor.first_offset
    for batch in window.batches.between(begin, last):
        if batch.last_offset < first:
            continue
        if batch.first_offset < first or batch.last_offset > last or window.begins_in(batch):
            batch.split(window.locks)
        for part_first, part_last, state in batch.parts():
            if first <= part_first and part_last <= last:
                yield part_first, part_last, state


def _without(acquired: Acquired, gone: set[int] | dict[int, int]) -> Acquired:
    """Return acquired records without some offsets."""
    records = []
    for each in acquired.records:
        kept = set(range(each.first_offset, each.last_offset + 1)).difference(gone)
        records += [
            AcquiredRecords(
                first_offset=first, last_offset=last, delivery_count=each.delivery_count
            )
            for first, last in _runs(kept)
        ]
    return Acquired(records, sum(each.last_offset - each.first_offset + 1 for each in records))
