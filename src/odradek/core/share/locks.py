"""Acquisition locks, and the times at which they expire.

A lock is cancelled when its records are acknowledged. A cancelled lock stays in the heap until the
time at which it would expire, or until most locks of the heap are cancelled.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

CANCELLED_KEPT: Final = 64
"""Number of cancelled locks from which on the heap may be cleaned."""


class Lock:
    """The acquisition of a range of records by a member, until `expiration_ms`."""

    __slots__ = ("_locks", "expiration_ms", "first_offset", "has_expired", "is_live", "last_offset")

    def __init__(
        self, locks: Locks, first_offset: int, last_offset: int, expiration_ms: int
    ) -> None:
        self._locks = locks
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.expiration_ms = expiration_ms
        self.is_live = True
        """Whether the lock has neither expired nor been cancelled."""
        self.has_expired = False

    def cancel(self) -> None:
        """Cancel the lock, unless it has expired."""
        if self.is_live:
            self.is_live = False
            self._locks.on_cancelled()

    def expire(self) -> None:
        """Mark the lock as expired."""
        self.is_live = False
        self.has_expired = True


class Locks:
    """The locks of a share partition, ordered by their expiration."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Lock]] = []
        self._count = 0
        self._cancelled = 0

    def add(self, first_offset: int, last_offset: int, expiration_ms: int) -> Lock:
        """Create a lock."""
        lock = Lock(self, first_offset, last_offset, expiration_ms)
        self._count += 1
        heappush(self._heap, (expiration_ms, self._count, lock))
        return lock

    def on_cancelled(self) -> None:
        """Note that a lock has been cancelled."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_KEPT and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].is_live]
            heapify(self._heap)
            self._cancelled = 0

    def next_expiration_ms(self) -> int | None:
        """Return when the next lock expires; None if there is no lock."""
        self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, now_ms: int) -> Lock | None:
        """Remove and return the oldest lock that has expired; None if there is none."""
        self._drop_cancelled()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        return heappop(self._heap)[2]

    def _drop_cancelled(self) -> None:
        while self._heap and not self._heap[0][2].is_live:
            heappop(self._heap)
            self._cancelled -= 1
