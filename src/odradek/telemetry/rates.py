"""Rates of counters, computed when they are read.

Apache Kafka updates the moving averages of each meter every five seconds. Here a counter is only a
number. When somebody reads its rates, the average is updated with the rate since the last reading,
weighted by the time in between (`exp(-seconds / window)`). Readings every few seconds give Apache
Kafka's numbers. The first reading gives the mean rate since the node was started.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import exp
from typing import NamedTuple

WINDOWS_SECONDS = (60, 300, 900)
INTERVAL_SECONDS = 1.0
"""Readings within this time after the last update do not update the averages."""
_FORGET_SECONDS = 900
_CHECK_AT_LEAST = 1024

WINDOWED = ("OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")


class _State(NamedTuple):
    seconds: float
    """When the averages were last updated."""
    counted: float
    averages: tuple[float, ...]
    """Events per second, for each window."""


class Rates:
    """The moving averages of counters. Several threads may read them."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns` is a monotonic clock."""
        self._now_ns = now_ns
        self._started = now_ns() / 1e9
        self._states: dict[Hashable, _State] = {}
        self._check_at = _CHECK_AT_LEAST

    def mean(self, count: float) -> float:
        """Return events per second since the node was started."""
        return count / max(self._now_ns() / 1e9 - self._started, 1e-9)

    def averages(self, key: Hashable, count: float) -> tuple[float, ...]:
        """Return the events per second of a counter, averaged with each of the windows."""
        now = self._now_ns() / 1e9
        last = self._states.get(key)
        if last is None or count < last.counted:
            state = _State(now, count, (self.mean(count),) * len(WINDOWS_SECONDS))
        else:
            elapsed = now - last.seconds
            if elapsed < INTERVAL_SECONDS:
                return last.averages
            rate = (count - last.counted) / elapsed
            state = _State(
                now,
                count,
                tuple(
                    rate + (average - rate) * exp(-elapsed / window)
                    for average, window in zip(last.averages, WINDOWS_SECONDS, strict=True)
                ),
            )
        self._states[key] = state
        if len(self._states) > self._check_at:
            self._forget(now)
        return state.averages

    def _forget(self, now: float) -> None:
        """Drop counters that nobody reads any more, for example those of deleted topics."""
        for key, state in list(self._states.items()):
            if now - state.seconds > _FORGET_SECONDS:
                self._states.pop(key, None)
        self._check_at = max(_CHECK_AT_LEAST, 2 * len(self._states))
