"""Rates and averages over windows (Kafka's SampledStat, Rate and Avg).

The time is divided into windows, and a sample has the sum of the values in one window. A sample is
dropped when its last value is as old as all windows together. The oldest sample may thus have begun
earlier. A rate is the sum of the samples, divided by the time since the oldest one began. This time
is at least the length of all windows except the last one, so that a burst after a silence counts as
if it had been spread over them.
"""

from __future__ import annotations

from math import floor


class _Sample:
    """The sum of the values in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        """When the last value was added; the start if there is none."""
        self.value = 0.0

    def reset(self, now_ms: int) -> None:
        """Begin a new sample."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0

    def add(self, value: float, now_ms: int) -> None:
        """Add a value."""
        self.value += value
        self.last_ms = now_ms


class WindowedSum:
    """The sum of the values of the last windows."""

    __slots__ = (
        "_count_max",
        "_current",
        "_expiry_ms",
        "_purge_ms",
        "_samples",
        "_window_ms",
        "oldest_ms",
        "total",
    )

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._expiry_ms = windows * window_ms
        self._count_max = windows + 1
        """There is one more sample, because the oldest one may have begun before the windows."""
        self._samples: list[_Sample] = []
        self._current = 0
        self.total = 0.0
        """The sum of the samples, as of the last call of `add` or `purge`."""
        self.oldest_ms = 0
        """When the oldest sample began, as of the last call."""
        self._purge_ms = 0
        """No sample is dropped before this time."""

    def add(self, value: float, now_ms: int) -> None:
        """Add a value, which may be negative. Samples that are too old are not dropped."""
        if not self._samples:
            self._begin(now_ms)
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            self._advance(now_ms)
            sample = self._samples[self._current]
        sample.add(value, now_ms)
        self.total += value

    def _begin(self, now_ms: int) -> None:
        """Begin the first sample."""
        self._samples.append(_Sample(now_ms))
        self._sum_up()

    def _advance(self, now_ms: int) -> None:
        """Begin the next sample, in the place of the oldest one if there is no other."""
        samples = self._samples
        self._current = (self._current + 1) % self._count_max
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        self._sum_up()

    def purge(self, now_ms: int) -> None:
        """Drop the samples that are too old."""
        if not self._samples:
            self._begin(now_ms)
        if now_ms < self._purge_ms:
            return
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._expiry_ms:
                sample.reset(now_ms)
        self._sum_up()

    def peek(self, now_ms: int) -> tuple[float, int]:
        """Return the sum, and when the oldest sample began, without a change of this object."""
        total, oldest_ms = 0.0, now_ms
        for sample in list(self._samples):
            if now_ms - sample.last_ms < self._expiry_ms:
                total += sample.value
                oldest_ms = min(oldest_ms, sample.start_ms)
        return total, oldest_ms

    def _sum_up(self) -> None:
        samples = self._samples
        self.total = sum(sample.value for sample in samples)
        self.oldest_ms = min(sample.start_ms for sample in samples)
        self._purge_ms = min(sample.last_ms for sample in samples) + self._expiry_ms


class Rate:
    """A rate per second."""

    __slots__ = ("_sum", "_window_ms", "_windows_min")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._sum = WindowedSum(windows, window_ms)
        self._window_ms = window_ms
        self._windows_min = windows - 1

    def add(self, value: float, now_ms: int) -> None:
        """Add a value, which may be negative."""
        self._sum.add(value, now_ms)

    def _measured_ms(self, now_ms: int, oldest_ms: int) -> int:
        """Return the time over which the rate is measured."""
        elapsed_ms = now_ms - oldest_ms
        full = elapsed_ms // self._window_ms
        if full < self._windows_min:
            elapsed_ms += (self._windows_min - full) * self._window_ms
        return max(elapsed_ms, 1)

    def measure(self, now_ms: int) -> float:
        """Return the rate per second. Another thread may call this method."""
        total, oldest_ms = self._sum.peek(now_ms)
        return total / (self._measured_ms(now_ms, oldest_ms) / 1000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long no value may be added until the rate is `bound`; 0 if it is not higher.

        The time is (rate - bound) / bound * the measured time (Kafka's QuotaUtils).
        """
        self._sum.purge(now_ms)
        measured_ms = self._measured_ms(now_ms, self._sum.oldest_ms)
        rate = self._sum.total / (measured_ms / 1000)
        if rate <= bound:
            return 0
        return floor((rate - bound) / bound * measured_ms + 0.5)


DEFAULT_WINDOWS = 2
DEFAULT_WINDOW_MS = 30_000
"""The windows of Kafka's measurements that have no settings."""


class Average:
    """The average of the values of the last minute, at most (Kafka's Avg with its defaults)."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum = WindowedSum(DEFAULT_WINDOWS, DEFAULT_WINDOW_MS)
        self._count = WindowedSum(DEFAULT_WINDOWS, DEFAULT_WINDOW_MS)

    def add(self, value: float, now_ms: int) -> None:
        """Add a value."""
        self._sum.add(value, now_ms)
        self._count.add(1, now_ms)

    def measure(self, now_ms: int) -> float:
        """Return the average; 0 if there are no values. Another thread may call this method."""
        count, _ = self._count.peek(now_ms)
        return self._sum.peek(now_ms)[0] / count if count else 0.0
