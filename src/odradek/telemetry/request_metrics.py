"""The metrics of one API: requests, bytes, errors, and a histogram of the durations."""

from __future__ import annotations

BUCKETS = 32


class RequestMetrics:
    """The counters of one API. Durations are counted in buckets.

    Bucket n counts durations from 2**(n-1) µs to below 2**n µs. The last bucket also counts all
    longer durations.
    """

    __slots__ = ("buckets", "bytes_in", "bytes_out", "count", "errors", "max_us", "sum_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.bytes_in = 0
        self.bytes_out = 0
        self.count = 0
        self.errors = 0
        """Number of requests that failed as a whole."""
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
        """Return an upper bound of a quantile (0 to 1) in µs, exact to a factor of two.

        Return 0 if there were no requests.
        """
        target = quantile * self.count
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= target:
                return min(float(1 << power), float(self.max_us))
        return 0.0
