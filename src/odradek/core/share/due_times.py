"""The times at which offsets are due: a timer wheel.

Times are divided into buckets of about a second. A bucket has the offsets and times as plain
numbers, in no order. The offsets of a bucket are sorted when its time begins, so a far time costs
16 bytes, and nothing before its bucket begins.
"""

from __future__ import annotations

from array import array
from heapq import heapify, heappop, heappush
from typing import Final

_SHIFT: Final = 10
BUCKET_MS: Final = 1 << _SHIFT


class DueTimes:
    """Offsets, and when they are due. Offsets are not removed before they are due."""

    __slots__ = ("_bucket_heap", "_buckets", "_opened_to", "_soon")

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        """Alternately a time and an offset."""
        self._bucket_heap: list[int] = []
        self._soon: list[tuple[int, int]] = []
        """A heap of the times and offsets of all buckets that have begun."""
        self._opened_to = -1
        """The last bucket that has begun."""

    def __len__(self) -> int:
        return len(self._soon) + sum(len(each) for each in self._buckets.values()) // 2

    def add(self, due_ms: int, offset: int) -> None:
        """Note when an offset is due."""
        number = due_ms >> _SHIFT
        if number <= self._opened_to:
            heappush(self._soon, (due_ms, offset))
            return
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = array("q")
            heappush(self._bucket_heap, number)
        bucket.append(due_ms)
        bucket.append(offset)

    def next_ms(self) -> int | None:
        """Return when to call `pop`; None if there are no offsets.

        An offset may be due at that time, or a bucket begins.
        """
        if self._soon:
            return self._soon[0][0]
        return self._bucket_heap[0] << _SHIFT if self._bucket_heap else None

    def pop(self, now_ms: int) -> list[int]:
        """Remove and return the offsets that are due, in the order of their times."""
        number = now_ms >> _SHIFT
        while self._bucket_heap and self._bucket_heap[0] <= number:
            bucket = self._buckets.pop(heappop(self._bucket_heap))
            self._soon += zip(bucket[::2], bucket[1::2], strict=True)
            heapify(self._soon)
        self._opened_to = max(self._opened_to, number)
        due = []
        while self._soon and self._soon[0][0] <= now_ms:
            due.append(heappop(self._soon)[1])
        return due
