"""Deadlines, and the pauses between attempts."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """Return monotonic milliseconds since an arbitrary start."""
    return time.monotonic_ns() // 1_000_000


class Deadline:
    """A point in time, `timeout_ms` after its creation."""

    __slots__ = ("_at_ms", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._at_ms = monotonic_ms() + timeout_ms

    @property
    def remaining_ms(self) -> int:
        """The time left in ms, never negative."""
        return max(0, self._at_ms - monotonic_ms())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining_ms == 0


class Backoff:
    """Exponential back-off. The pause doubles up to a limit, as in KIP-580 but without jitter."""

    __slots__ = ("_next_ms", "_pause_ms_max")

    def __init__(self, pause_ms: int, pause_ms_max: int) -> None:
        self._next_ms = pause_ms
        self._pause_ms_max = pause_ms_max

    def pause(self, deadline: Deadline) -> bool:
        """Sleep and return True. If the deadline comes first, return False without sleeping."""
        if deadline.remaining_ms <= self._next_ms:
            return False
        time.sleep(self._next_ms / 1000)
        self._next_ms = min(2 * self._next_ms, self._pause_ms_max)
        return True
