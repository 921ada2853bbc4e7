"""When a problem that goes on is worth a line in the log."""

from __future__ import annotations

from collections.abc import Callable

REPEAT_SECONDS, REPEAT_SECONDS_MAX = 60.0, 3600.0
"""The pause before a problem is logged again. It doubles each time."""
_PROBLEMS_MAX = 1000


class Reminders:
    """Says when a problem that goes on is worth a line in the log: at first, and then rarely."""

    __slots__ = ("_next", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns seconds."""
        self._now = now
        self._next: dict[object, tuple[float, float]] = {}
        """When each problem is due again, and the pause after that."""

    def is_due(self, problem: object) -> bool:
        """Return whether to log a problem now; if so, the next time is later."""
        now = self._now()
        at, pause = self._next.get(problem, (now, REPEAT_SECONDS))
        if now < at:
            return False
        if len(self._next) >= _PROBLEMS_MAX:
            self._next.clear()
        self._next[problem] = now + pause, min(2 * pause, REPEAT_SECONDS_MAX)
        return True
