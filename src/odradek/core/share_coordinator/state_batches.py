"""Combines batches of delivery states (Kafka's `PersisterStateBatchCombiner`).

If two batches overlap, the batch with the higher delivery count wins, then the batch with the
higher delivery state. The other batch keeps the offsets that do not overlap. Adjacent batches with
the same state are joined.

The result has the same batches as in Apache Kafka. Batches are processed in the order of their
offsets. A batch that neither overlaps nor continues the next batch is final. It is not joined with
a later result, even if both have the same state.

If there are many batches (of records that are delivered with a delay), only the neighbours of the
changes are combined again. Then a change does not cost more if there are more batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

MANY: Final = 500
"""Number of batches from which on only the neighbours of changes are combined. Then the batches may
be divided otherwise than in Kafka."""
_first_offset: Final = attrgetter("first_offset")
_last_offset: Final = attrgetter("last_offset")


class StateBatch(NamedTuple):
    """Consecutive records with the same state. The order of the fields is the order of batches."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    def has_same_state(self, other: StateBatch) -> bool:
        """Return whether delivery count and delivery state are equal."""
        return self[2:] == other[2:]


def combine(
    before: Sequence[StateBatch],
    changes: Iterable[StateBatch],
    start_offset: int,
    many: int = MANY,
) -> list[StateBatch]:
    """Return the batches after the changes, without the offsets before `start_offset`.

    `before` is the result of an earlier call. If `start_offset` is -1, all offsets are kept.
    """
    if len(before) >= many:
        return _combine_near(before, changes, start_offset)
    return _combine_all(before, changes, start_offset)


def _combine_near(
    before: Sequence[StateBatch], changes: Iterable[StateBatch], start_offset: int
) -> list[StateBatch]:
    """Combine each change with the batches that it overlaps or continues."""
    begin = bisect_left(before, start_offset, key=_last_offset)
    combined = list(before[begin:])
    if combined:
        combined[:1] = _from(start_offset, combined[:1])
    for change in _from(start_offset, changes):
        low = bisect_left(combined, change.first_offset - 1, key=_last_offset)
        high = bisect_right(combined, change.last_offset + 1, key=_first_offset)
        near = _combine_all(combined[low:high], [change], -1)
        combined[low:high] = _combine_all(near, [], -1)  # joins results that are equal, too
    return combined


def _combine_all(
    before: Iterable[StateBatch], changes: Iterable[StateBatch], start_offset: int
) -> list[StateBatch]:
    pending = list(_from(start_offset, [*before, *changes]))
    if len(pending) < 2:
        return pending
    heapify(pending)
    combined: list[StateBatch] = []
    first = heappop(pending)
    while pending:
        second = heappop(pending)
        if second.first_offset <= first.last_offset:
            for each in _separate(first, second):
                heappush(pending, each)
            first = heappop(pending)
        elif second.first_offset == first.last_offset + 1 and first.has_same_state(second):
            first = first._replace(last_offset=second.last_offset)
        else:
            combined.append(first)
            first = second
    combined.append(first)
    return combined


def _from(start_offset: int, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.last_offset < start_offset:
            continue
        if start_offset == -1 or batch.first_offset >= start_offset:
            yield batch
        else:
            yield batch._replace(first_offset=start_offset)


def _separate(first: StateBatch, second: StateBatch) -> Iterator[StateBatch]:
    """Yield batches that do not overlap. `second` does not sort before `first`."""
    if first.has_same_state(second):
        yield first._replace(last_offset=max(first.last_offset, second.last_offset))
    elif second[2:] < first[2:]:
        yield first
        if second.last_offset > first.last_offset:
            yield second._replace(first_offset=first.last_offset + 1)
    else:
        if first.first_offset < second.first_offset:
            yield first._replace(last_offset=second.first_offset - 1)
        yield second
        if first.last_offset > second.last_offset:
            yield first._replace(first_offset=second.last_offset + 1)
