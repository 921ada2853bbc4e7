"""The pauses between attempts: exponential, with jitter (KIP-580)."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
RandomNumber = Callable[[], int]
"""Returns a random number of 31 bits."""
_RANGE = 1 << 31


class Backoff:
    """Counts failed attempts. Each pause is twice as long as the one before, up to a limit."""

    __slots__ = ("_failures", "_pause_ms", "_pause_ms_max", "_random")

    def __init__(self, pause_ms: int, pause_ms_max: int, random: RandomNumber) -> None:
        self._pause_ms = pause_ms
        self._pause_ms_max = max(pause_ms, pause_ms_max)
        self._random = random
        self._failures = 0

    def failed(self) -> int:
        """Count a failure, and return the pause before the next attempt in ms."""
        pause = min(self._pause_ms << min(self._failures, 20), self._pause_ms_max)
        self._failures += 1
        return round(pause * (1 + JITTER * (2 * self._random() / _RANGE - 1)))

    def succeeded(self) -> None:
        """Begin again with the shortest pause."""
        self._failures = 0
