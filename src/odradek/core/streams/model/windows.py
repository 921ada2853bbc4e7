"""Kinds of windows. Durations are texts like "5m" (see `durations`)."""

from __future__ import annotations

from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.serdes import LONG_MAX


class Hopping:
    """Windows of `size` that start every `advance`, at multiples of it: the start is inside, the end
    outside. `grace` is how long late records are accepted after a window's end; without it, those
    that come after the end are dropped.

    Raises:
        ValueError: a duration is no duration, or `advance` is not between 1 ms and `size`.
    """

    def __init__(self, size: Duration, advance: Duration, grace: Duration = 0) -> None:
        self.size_ms = milliseconds(size)
        self.advance_ms = milliseconds(advance)
        self.grace_ms = milliseconds(grace)
        if self.size_ms <= 0:
            raise ValueError("the size of a window must be at least 1 ms")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError("the advance of windows must be between 1 ms and their size")

    def starts_for(self, timestamp: int) -> list[int]:
        """Return the starts of the windows that contain a time, in ascending order."""
        start = max(0, timestamp - self.size_ms + self.advance_ms)
        first = start // self.advance_ms * self.advance_ms
        return list(range(first, timestamp + 1, self.advance_ms))

    def end_of(self, start: int) -> int:
        """Return the end of the window."""
        return start + self.size_ms


class Tumbling(Hopping):
    """Windows of `size` that do not overlap."""

    def __init__(self, size: Duration, grace: Duration = 0) -> None:
        super().__init__(size, size, grace)


class Unlimited:
    """One window from `start` (milliseconds since 1970) without an end."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise ValueError("the start of a window cannot be negative")
        self.start_ms = start
        self.size_ms = LONG_MAX
        self.grace_ms = 0

    def starts_for(self, timestamp: int) -> list[int]:
        """Return the start of the window if it contains the time."""
        return [self.start_ms] if timestamp >= self.start_ms else []

    def end_of(self, _start: int) -> int:
        """Return the end: the highest time."""
        return LONG_MAX


class Sliding:
    """For each record, the window of `difference` that ends at its time, and the one that starts
    behind it. Both ends are inside. Two records share a window if their times differ by at most
    `difference`."""

    def __init__(self, difference: Duration, grace: Duration = 0) -> None:
        self.difference_ms = milliseconds(difference)
        self.grace_ms = milliseconds(grace)


class Session:
    """Windows of activity: a session ends after a `gap` without records. Both ends are inside."""

    def __init__(self, gap: Duration, grace: Duration = 0) -> None:
        self.gap_ms = milliseconds(gap)
        self.grace_ms = milliseconds(grace)
        if self.gap_ms <= 0:
            raise ValueError("the gap of sessions must be at least 1 ms")


class JoinWindow:
    """Which records of two streams join: the right record's time is at most `before` before and at
    most `after` after the left record's. `difference` sets both."""

    def __init__(
        self,
        difference: Duration = 0,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration = 0,
    ) -> None:
        self.before_ms = milliseconds(difference if before is None else before)
        self.after_ms = milliseconds(difference if after is None else after)
        self.grace_ms = milliseconds(grace)

    @property
    def size_ms(self) -> int:
        """The length of the window."""
        return self.before_ms + self.after_ms
