"""The metrics of one API: requests, their bytes, errors and a histogram of their durations."""

from __future__ import annotations

BUCKETS = 32


class RequestMetrics:
    """Counts requests, and their durations by powers of two of a microsecond.

    Bucket n holds durations below 2**n µs; the last bucket holds all longer ones.
    """

    __slots__ = ("buckets", "bytes_in", "bytes_out", "count", "errors", "max_us", "sum_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.bytes_in = 0
        self.bytes_out = 0
        self.count = 0
        self.errors = 0
        """Requests that ended in an error of their own or an unexpected one."""
        self.max_us = 0
        self.sum_us = 0

    def record(self, duration_us: int, bytes_in: int, bytes_out: int) -> None:
        """Count one request and its response."""
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.count += 1
        self.sum_us += duration_us
        if duration_us > self.max_us:
            self.max_us = duration_us
        self.buckets[min(duration_us.bit_length(), BUCKETS - 1)] += 1

    def record_error(self) -> None:
        """Count a request that failed as a whole."""
        self.errors += 1

    def quantile_us(self, quantile: float) -> float:
        """Return an upper bound of the quantile (0..1), exact to a factor of two; 0 when empty."""
        target = quantile * self.count
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= target:
                return min(float(1 << power), float(self.max_us))
        return 0.0
