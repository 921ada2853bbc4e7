"""Deadlines and the operations that are called after them.

A state machine schedules timers. The runtime asks for the next deadline, waits, and calls the
operations of expired timers.

Every heartbeat postpones a deadline, so a postponement must be fast. It changes the timer but not
the heap. The timer's entry in the heap keeps the old deadline. When this entry becomes the first
entry of the heap, the timer is pushed again with its current deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, Final

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.result import CoordinatorResult

TimedOperation = Callable[..., CoordinatorResult[Any]]

STALE_MIN: Final = 64
"""Limit of outdated heap entries: the heap is cleaned when it has more entries than this number
plus twice the number of timers."""


class Timer:
    """One deadline. `operation(*arguments)` is called after the deadline.

    If `retry_ms` is set and the records of the operation cannot be written, the operation is called
    again after `retry_ms`.
    """

    __slots__ = ("arguments", "deadline_ms", "key", "operation", "queued_ms", "retry_ms")

    def __init__(
        self,
        key: Hashable,
        deadline_ms: int,
        operation: TimedOperation,
        arguments: tuple[Any, ...],
        retry_ms: int | None,
    ) -> None:
        self.key = key
        self.queued_ms = deadline_ms
        """The deadline of the timer's entry in the heap; at most `deadline_ms`."""
        self.postpone(deadline_ms, operation, arguments, retry_ms)

    def postpone(
        self,
        deadline_ms: int,
        operation: TimedOperation,
        arguments: tuple[Any, ...],
        retry_ms: int | None,
    ) -> None:
        """Replace the deadline and the operation. The timer's entry in the heap does not change."""
        self.deadline_ms = deadline_ms
        self.operation = operation
        self.arguments = arguments
        self.retry_ms = retry_ms

    def requeue(self) -> int:
        """Set the deadline of the timer's heap entry to its current deadline, and return it."""
        self.queued_ms = self.deadline_ms
        return self.queued_ms


class TimerTable:
    """Timers by key. A new timer replaces the timer with the same key."""

    __slots__ = ("_by_key", "_heap", "_monotonic_ms", "_number", "_on_earlier")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._by_key: dict[Hashable, Timer] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._number = 0
        self._on_earlier: Callable[[], None] | None = None

    def listen(self, on_earlier: Callable[[], None] | None) -> None:
        """Call `on_earlier` whenever the next deadline may have become earlier.

        If `on_earlier` is None, stop these calls.
        """
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
        """Call `operation(*arguments)` after a delay. Replace the timer of `key`, if it exists."""
        deadline_ms = self._monotonic_ms() + delay_ms
        timer = self._by_key.get(key)
        if timer is None or deadline_ms < timer.queued_ms:
            timer = Timer(key, deadline_ms, operation, arguments, retry_ms)
            self._by_key[key] = timer
            self._push(timer)
            if self._on_earlier is not None and self._heap[0][2] is timer:
                self._on_earlier()
        else:
            timer.postpone(deadline_ms, operation, arguments, retry_ms)

    def _push(self, timer: Timer) -> None:
        self._number += 1
        heap = self._heap
        heappush(heap, (timer.requeue(), self._number, timer))
        if len(heap) > STALE_MIN + 2 * len(self._by_key):
            heap[:] = [entry for entry in heap if self._is_current(entry)]
            heapify(heap)

    def _is_current(self, entry: tuple[int, int, Timer]) -> bool:
        queued_ms, _, timer = entry
        return self._by_key.get(timer.key) is timer and timer.queued_ms == queued_ms

    def cancel(self, key: Hashable) -> None:
        """Remove the timer of `key`, if it exists."""
        self._by_key.pop(key, None)

    def cancel_recorded(self, key: Hashable, journal: Journal) -> None:
        """Remove the timer of `key`, because of records that are about to be written.

        If they cannot be written, the timer is there again. Otherwise what it waits for would stay
        for ever, such as a member that has tried to leave.
        """
        timer = self._by_key.pop(key, None)
        if timer is not None:
            journal.on_roll_back(partial(self._restore, timer))

    def _restore(self, timer: Timer) -> None:
        if timer.key not in self._by_key:
            self._by_key[timer.key] = timer
            self._push(timer)
            if self._on_earlier is not None and self._heap[0][2] is timer:
                self._on_earlier()

    def cancel_all(self) -> None:
        """Remove all timers."""
        self._by_key.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """Return a time at or before the next deadline (monotonic clock); None without timers."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self) -> Timer | None:
        """Remove and return the first expired timer; None if no timer has expired."""
        now_ms = self._monotonic_ms()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            timer = entry[2]
            if self._by_key.get(timer.key) is not timer or timer.queued_ms != entry[0]:
                continue
            if timer.deadline_ms > timer.queued_ms:  # it was postponed
                self._push(timer)
                continue
            del self._by_key[timer.key]
            return timer
        return None
