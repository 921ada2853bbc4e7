"""Deadlines and their operations. A machine schedules; its runtime asks for the next deadline and
runs what is due.

Most deadlines are postponed, by every heartbeat, so that must be cheap: it changes the entry and
leaves its old place in the heap, which is corrected when that place comes to the top.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Any

from odradek.core.coordinator.result import CoordinatorResult

TimedOperation = Callable[..., CoordinatorResult[Any]]

STALE_MIN = 64
"""Cancelled entries that the heap may hold before it is tidied, besides a half of it."""


class Timer:
    """One deadline. `operation(*arguments)` is asked when it has passed.

    With `retry_ms` it is asked again after that time if its records cannot be written.
    """

    __slots__ = ("arguments", "deadline_ms", "key", "operation", "queued_ms", "retry_ms")

    def __init__(
        self, key: Hashable, operation: TimedOperation, arguments: tuple[Any, ...]
    ) -> None:
        self.key = key
        self.operation = operation
        self.arguments = arguments
        self.deadline_ms = 0
        self.queued_ms = 0
        """The earliest place in the heap; not after the deadline."""
        self.retry_ms: int | None = None


class TimerTable:
    """Timers by key; a new one of the same key takes the place of the old."""

    __slots__ = ("_by_key", "_heap", "_monotonic_ms", "_number", "_on_earlier")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._by_key: dict[Hashable, Timer] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._number = 0
        self._on_earlier: Callable[[], None] | None = None

    def listen(self, on_earlier: Callable[[], None] | None) -> None:
        """Call `on_earlier` whenever the next deadline may have become earlier; None ends that."""
        self._on_earlier = on_earlier

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def schedule(
        self,
        key: Hashable,
        delay_ms: int,
        operation: TimedOperation,
        *arguments: Any,
        retry_ms: int | None = None,
    ) -> None:
        """Ask `operation(*arguments)` after a delay, in place of what was scheduled there."""
        deadline_ms = self._monotonic_ms() + delay_ms
        timer = self._by_key.get(key)
        if timer is None or deadline_ms < timer.queued_ms:
            timer = Timer(key, operation, arguments)
            timer.deadline_ms = deadline_ms
            timer.retry_ms = retry_ms
            self._by_key[key] = timer
            self._push(timer)
            if self._on_earlier is not None and self._heap[0][2] is timer:
                self._on_earlier()
        else:
            timer.operation = operation
            timer.arguments = arguments
            timer.deadline_ms = deadline_ms
            timer.retry_ms = retry_ms

    def _push(self, timer: Timer) -> None:
        timer.queued_ms = timer.deadline_ms
        self._number += 1
        heap = self._heap
        heappush(heap, (timer.deadline_ms, self._number, timer))
        if len(heap) > STALE_MIN + 2 * len(self._by_key):
            heap[:] = [entry for entry in heap if self._is_current(entry)]
            heapify(heap)

    def _is_current(self, entry: tuple[int, int, Timer]) -> bool:
        queued_ms, _, timer = entry
        return self._by_key.get(timer.key) is timer and timer.queued_ms == queued_ms

    def cancel(self, key: Hashable) -> None:
        """Forget what was scheduled there, if anything was."""
        self._by_key.pop(key, None)

    def cancel_all(self) -> None:
        """Forget everything."""
        self._by_key.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """When to look again, on the monotonic clock; None if nothing is scheduled."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self) -> Timer | None:
        """A timer whose deadline has passed, the oldest first; it is no longer scheduled."""
        now_ms = self._monotonic_ms()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            timer = entry[2]
            if self._by_key.get(timer.key) is not timer or timer.queued_ms != entry[0]:
                continue
            if timer.deadline_ms > timer.queued_ms:  # it was pushed back
                self._push(timer)
                continue
            del self._by_key[timer.key]
            return timer
        return None
