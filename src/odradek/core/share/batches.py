"""The batches in flight, ordered by their first offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from odradek.core.share.in_flight import InFlightBatch

_first_offset: Final = attrgetter("first_offset")


class Batches:
    """Batches that do not overlap. There may be gaps between them."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """The batch with the lowest offsets. There must be a batch."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """The batch with the highest offsets. There must be a batch."""
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch. It replaces a batch with the same first offset."""
        batches = self._batches
        if not batches or batches[-1].first_offset < batch.first_offset:
            batches.append(batch)
            return
        index = bisect_left(batches, batch.first_offset, key=_first_offset)
        if batches[index].first_offset == batch.first_offset:
            batches[index] = batch
        else:
            insort(batches, batch, key=_first_offset)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at `offset` or before."""
        index = bisect_right(self._batches, offset, key=_first_offset)
        return self._batches[index - 1] if index else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin at an offset from `first` to `last`."""
        batches = self._batches
        begin = bisect_left(batches, first, key=_first_offset)
        return batches[begin : bisect_right(batches, last, key=_first_offset)]

    def after(self, offset: int) -> InFlightBatch | None:
        """Return the first batch that begins after `offset`."""
        index = bisect_right(self._batches, offset, key=_first_offset)
        return self._batches[index] if index < len(self._batches) else None

    def remove_before(self, offset: int) -> None:
        """Remove the batches that begin before `offset`."""
        del self._batches[: bisect_left(self._batches, offset, key=_first_offset)]

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()
