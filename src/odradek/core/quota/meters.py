"""The measurements of clients that have a limit."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

from odradek.core.quota.limits import Key
from odradek.core.quota.rate import DEFAULT_WINDOW_MS, DEFAULT_WINDOWS, Average, Rate
from odradek.core.quota.token_bucket import TokenBucket

UNBOUNDED_MS: Final = 2**31 - 1
"""The longest time that a client is throttled: more does not fit into a response."""


class Windows(NamedTuple):
    """The windows of a rate."""

    number: int
    window_ms: int


class Throttles:
    """The throttled connections of one type, for metrics."""

    __slots__ = ("_ends_ms",)

    def __init__(self) -> None:
        self._ends_ms: list[int] = []
        """When they are not throttled any more; a heap."""

    def add(self, throttle_ms: int, now_ms: int) -> None:
        """Count a connection."""
        while self._ends_ms and self._ends_ms[0] <= now_ms:
            heappop(self._ends_ms)
        heappush(self._ends_ms, now_ms + throttle_ms)

    def count(self, now_ms: int) -> int:
        """Return the number of connections that are throttled now.

        Another thread may call this method.
        """
        return sum(end_ms > now_ms for end_ms in list(self._ends_ms))


class Meter:
    """The rate of the clients that share a limit: bytes per second, or percent of the time."""

    __slots__ = (
        "_all",
        "_burst_seconds",
        "_rate",
        "_throttle_max_ms",
        "_throttled",
        "key",
        "limit",
        "used_ms",
    )

    def __init__(
        self,
        key: Key,
        limit: float,
        windows: Windows,
        throttles: Throttles,
        now_ms: int,
        throttle_max_ms: int = UNBOUNDED_MS,
    ) -> None:
        self.key = key
        self.limit = limit
        self._rate = Rate(windows.number, windows.window_ms)
        self._burst_seconds = (windows.number - 1) * windows.window_ms / 1000
        self._throttle_max_ms = throttle_max_ms
        self._throttled = Average()
        self._all = throttles
        self.used_ms = now_ms
        """When the meter was last used."""

    def use_limit(self, limit: float) -> None:
        """Change the limit. What was measured is kept."""
        self.limit = limit

    def touch(self, now_ms: int) -> None:
        """Note that the meter is used."""
        self.used_ms = now_ms

    @property
    def value_max(self) -> float:
        """The largest value that can be counted without an excess, if no other value is counted."""
        return self.limit * self._burst_seconds

    def record(self, value: float, now_ms: int) -> int:
        """Count a value; return how long the client must be throttled."""
        self.add(value, now_ms)
        return self.check(now_ms)

    def add(self, value: float, now_ms: int) -> None:
        """Count a value, without a check. A negative value is subtracted."""
        self.used_ms = now_ms
        self._rate.add(value, now_ms)

    def check(self, now_ms: int) -> int:
        """Return how long the client must be throttled until the rate is below the limit."""
        return min(self._rate.throttle_ms(self.limit, now_ms), self._throttle_max_ms)

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Count that a connection is throttled."""
        self._throttled.add(throttle_ms, now_ms)
        self._all.add(throttle_ms, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the rate."""
        return self._rate.measure(now_ms)

    def throttle_time_ms(self, now_ms: int) -> float:
        """Return the average time for which connections were throttled."""
        return self._throttled.measure(now_ms)


class MutationMeter:
    """The changes of partitions by the clients that share a limit (KIP-599)."""

    __slots__ = ("_all", "_bucket", "_rate", "_throttled", "key", "used_ms")

    def __init__(
        self, key: Key, limit: float, windows: Windows, throttles: Throttles, now_ms: int
    ) -> None:
        burst_seconds = windows.number * windows.window_ms / 1000
        self.key = key
        self._bucket = TokenBucket(limit, burst_seconds, now_ms)
        self._rate = Rate(DEFAULT_WINDOWS, DEFAULT_WINDOW_MS)
        self._throttled = Average()
        self._all = throttles
        self.used_ms = now_ms

    @property
    def limit(self) -> float:
        """Changes per second."""
        return self._bucket.rate

    def use_limit(self, limit: float) -> None:
        """Change the limit. The tokens are kept."""
        self._bucket.use_rate(limit)

    def touch(self, now_ms: int) -> None:
        """Note that the meter is used."""
        self.used_ms = now_ms

    def add(self, count: float, now_ms: int) -> None:
        """Count changes."""
        self.used_ms = now_ms
        self._rate.add(count, now_ms)
        self._bucket.take(count, now_ms)

    def check(self, now_ms: int) -> int:
        """Return how long the client must be throttled."""
        return min(self._bucket.throttle_ms(now_ms), UNBOUNDED_MS)

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Count that a connection is throttled."""
        self._throttled.add(throttle_ms, now_ms)
        self._all.add(throttle_ms, now_ms)

    def tokens(self, now_ms: int) -> float:
        """Return the number of tokens."""
        return self._bucket.measure(now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the changes per second."""
        return self._rate.measure(now_ms)

    def throttle_time_ms(self, now_ms: int) -> float:
        """Return the average time for which connections were throttled."""
        return self._throttled.measure(now_ms)
