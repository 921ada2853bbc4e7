"""Calls functions of processors at times: of the records, or of the clock.

By stream time the first call comes with the first record, and the times are multiples of the interval.
By the clock it comes one interval after the start. A time that has been missed is skipped: there is one
call for all.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.streams.model.java_order import PriorityQueue


class _Schedule:
    """A function that is called in intervals."""

    def __init__(self, time: int, interval_ms: int, call: Callable[[int], None]) -> None:
        self.time = time
        self.interval_ms = interval_ms
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        """End the calls."""
        self.is_cancelled = True

    def advance(self, now: int) -> None:
        """Set the time of the next call."""
        following = self.time + self.interval_ms
        if now >= following:
            missed = (now - self.time) // self.interval_ms
            following = self.time + (missed + 1) * self.interval_ms
        self.time = following


class PunctuationQueue:
    """The functions that are called by one kind of time."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[_Schedule] = PriorityQueue(lambda each: each.time)

    def schedule(
        self, first: int, interval_ms: int, call: Callable[[int], None]
    ) -> Callable[[], None]:
        """Call `call(time)` from `first` on. Return a function that ends this."""
        schedule = _Schedule(first, interval_ms, call)
        self._queue.offer(schedule)
        return schedule.cancel

    def next_time(self) -> int | None:
        """Return the time of the next call."""
        first = self._queue.peek()
        return None if first is None else first.time

    def run(self, now: int) -> bool:
        """Call the functions that are due. Return whether there were any."""
        has_run = False
        while (first := self._queue.peek()) is not None and first.time <= now:
            self._queue.poll()
            if first.is_cancelled:
                continue
            first.call(now)
            if not first.is_cancelled:
                first.advance(now)
                self._queue.offer(first)
            has_run = True
        return has_run
