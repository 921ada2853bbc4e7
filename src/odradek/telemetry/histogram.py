"""A histogram of durations with buckets that double."""

from __future__ import annotations

BUCKETS = 32


class Histogram:
    """Counts durations by powers of two of a microsecond.

    Bucket n holds durations below 2**n µs; the last bucket holds all longer ones.
    """

    __slots__ = ("buckets", "count", "max_us", "sum_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.count = 0
        self.sum_us = 0
        self.max_us = 0

    def record(self, duration_us: int) -> None:
        """Count one duration."""
        self.count += 1
        self.sum_us += duration_us
        if duration_us > self.max_us:
            self.max_us = duration_us
        self.buckets[min(duration_us.bit_length(), BUCKETS - 1)] += 1

    def quantile_us(self, quantile: float) -> float:
        """Return an upper bound of the quantile (0..1), exact to a factor of two; 0 when empty."""
        target = quantile * self.count
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= target:
                return min(float(1 << power), float(self.max_us))
        return 0.0
