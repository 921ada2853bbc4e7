"""Counts values in buckets whose limits are powers of two.

Bucket n counts values from 2**(n-1) to below 2**n. The last bucket also counts all larger values.
Mean and maximum are exact. Percentiles are upper bounds, exact to a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

BUCKETS = 32


@dataclass(frozen=True, slots=True)
class Histogram:
    """The values that were counted until now."""

    count: int
    sum: float
    max: float
    buckets: list[int]
    scale: float = 1.0
    """What a counted value is multiplied with: 0.001 if µs are counted and ms are read."""

    @classmethod
    def of_zeros(cls, count: int, scale: float = 1.0) -> Histogram:
        """Return a histogram of zeros."""
        return cls(count, 0, 0, [count], scale)

    def quantile(self, quantile: float) -> float:
        """Return an upper bound of a quantile (0 to 1); 0 if there are no values."""
        target = quantile * sum(self.buckets)  # of a sample, if only a sample has buckets
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= target:
                return min(float(1 << power) if power else 0.0, float(self.max)) * self.scale
        return 0.0

    @property
    def mean(self) -> float:
        """The mean; 0 if there are no values."""
        return self.sum / self.count * self.scale if self.count else 0.0

    @property
    def least(self) -> float:
        """A lower bound of the smallest value, exact to a factor of two."""
        for power, count in enumerate(self.buckets):
            if count:
                return (1 << power - 1) * self.scale if power else 0.0
        return 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of values in the middle of their buckets."""
        counted = sum(self.buckets)
        if counted < 2:
            return 0.0
        mean = self.sum / self.count
        squares = 0.0
        for power, count in enumerate(self.buckets):
            if count:
                middle = min(0.75 * (1 << power) if power else 0.0, self.max)
                squares += count * (middle - mean) ** 2
        return float((squares / (counted - 1)) ** 0.5) * self.scale

    def attribute(self, name: str, quantiles: dict[str, float]) -> float:
        """Return the value of an attribute of Apache Kafka's histograms."""
        match name:
            case "Count":
                return self.count
            case "Min":
                return self.least
            case "Max":
                return self.max * self.scale
            case "Mean":
                return self.mean
            case "StdDev":
                return self.deviation
            case _:
                return self.quantile(quantiles[name])

    def plus(self, other: Histogram) -> Histogram:
        """Return the histogram of the values of both, which have the same scale."""
        return Histogram(
            self.count + other.count,
            self.sum + other.sum,
            max(self.max, other.max),
            _sums(self.buckets, other.buckets),
            self.scale,
        )


def _sums(a: list[int], b: list[int]) -> list[int]:
    if len(a) < len(b):
        a, b = b, a
    return [count + (b[at] if at < len(b) else 0) for at, count in enumerate(a)]
