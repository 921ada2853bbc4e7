"""A token bucket (Kafka's TokenBucket, KIP-599).

Tokens are added at the rate of the quota, up to a maximum. A client takes one for each change. The
number of tokens may become negative, because one request may take more than there are. Then the
quota is exhausted until the number is 0 again. After a burst, a client waits only as long as the
rate requires, while the samples of `Rate` would count the burst until its window is over.
"""

from __future__ import annotations

from math import floor


class TokenBucket:
    """The tokens of one client."""

    __slots__ = ("_burst_seconds", "_tokens", "_updated_ms", "rate")

    def __init__(self, rate: float, burst_seconds: float, now_ms: int) -> None:
        """The full bucket has the tokens of `burst_seconds`. It is full at first."""
        self.rate = rate
        """Tokens per second."""
        self._burst_seconds = burst_seconds
        self._tokens = rate * burst_seconds
        self._updated_ms = now_ms

    def use_rate(self, rate: float) -> None:
        """Change the rate. The tokens are kept."""
        self.rate = rate

    def measure(self, now_ms: int) -> float:
        """Return the number of tokens. The quota is exhausted if it is negative.

        Another thread may call this method.
        """
        elapsed_seconds = (now_ms - self._updated_ms) / 1000
        return min(self._burst_seconds * self.rate, self._tokens + self.rate * elapsed_seconds)

    def _refill(self, now_ms: int) -> None:
        self._tokens = self.measure(now_ms)
        self._updated_ms = now_ms

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens, also if there are not enough."""
        self._refill(now_ms)
        self._tokens = min(self._burst_seconds * self.rate, self._tokens - count)

    def throttle_ms(self, now_ms: int) -> int:
        """Return the time until the quota is not exhausted; 0 if it is not exhausted."""
        self._refill(now_ms)
        tokens = self._tokens
        return floor(-tokens / self.rate * 1000 + 0.5) if tokens < 0 else 0
