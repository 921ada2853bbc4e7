"""The mean and maximum of the values of the last minute, as Apache Kafka's `Avg` and `Max` have them.

Two windows of 30 s are kept: the present one and the one before it.
"""

from __future__ import annotations

from math import nan
from typing import Final

WINDOW_MS: Final = 30_000


class RecentTimes:
    """Values, for example durations in ms. Times are ms of a monotonic clock."""

    __slots__ = ("_before", "_count", "_max", "_start_ms", "_sum")

    def __init__(self) -> None:
        self._start_ms = 0
        self._count = 0
        self._sum = 0.0
        self._max = 0.0
        self._before: tuple[int, float, float] = (0, 0.0, 0.0)
        """Count, sum and maximum of the window before."""

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        elapsed_ms = now_ms - self._start_ms
        if elapsed_ms >= WINDOW_MS:
            is_next = elapsed_ms < 2 * WINDOW_MS
            self._before = (self._count, self._sum, self._max) if is_next else (0, 0.0, 0.0)
            self._count, self._sum, self._max = 0, 0.0, 0.0
            self._start_ms = now_ms
        self._count += 1
        self._sum += value
        self._max = max(self._max, value)

    def read(self, now_ms: int) -> tuple[float, float]:
        """Return the mean and the maximum; both are nan if there are no values."""
        elapsed_ms = now_ms - self._start_ms
        count, total, largest = 0, 0.0, 0.0
        if elapsed_ms < 2 * WINDOW_MS:
            count, total, largest = self._count, self._sum, self._max
        if elapsed_ms < WINDOW_MS:
            count, total = count + self._before[0], total + self._before[1]
            largest = max(largest, self._before[2])
        return (total / count, largest) if count else (nan, nan)
