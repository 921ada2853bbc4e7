"""Virtual time: a queue of events, one source of randomness, one history.

Events run one after the other in the order of their time, and of their scheduling where the time
is the same. Each takes `EVENT_NS`, so that time goes on whatever they do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

EVENT_NS = 1_000
"""How long an event takes."""
EPOCH_MS = 1_700_000_000_000
"""The calendar's time when a world begins."""
END_NS = 300 * 1_000_000_000
"""A world that goes on after so long does not end by itself."""


class NoEnd(Exception):
    """The condition that was waited for has not come."""


class History:
    """What has happened, a line for each; two runs are the same if their histories are."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def digest(self) -> str:
        """Of all lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


class World:
    """See the module."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self.now_ns = 0
        self.history = History()
        self.failures: list[str] = []
        """Defects that were noticed on the way: exceptions that nobody has handled."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def random(self, purpose: str) -> Random:
        """Random numbers for one purpose, which do not depend on those drawn for others."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, source: str, text: str) -> None:
        """Add to the history."""
        self.history.lines.append(f"{self.now_ns // 1000} {source} {text}")

    def at(self, when_ns: int, event: Callable[[], None]) -> None:
        """Run the event at that time, or now if that is past."""
        self._number += 1
        heappush(self._events, (max(when_ns, self.now_ns), self._number, event))

    def after(self, delay_ns: int, event: Callable[[], None]) -> None:
        """Run the event in so many nanoseconds."""
        self.at(self.now_ns + delay_ns, event)

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run events until the condition holds after one.

        Raises:
            NoEnd: no event is left, or `END_NS` is reached.
        """
        while not is_over():
            if not self._events:
                raise NoEnd("everybody waits and nothing is scheduled")
            if self.now_ns > END_NS:
                raise NoEnd(f"no end after {self.now_ns // 1_000_000_000} s")
            when_ns, _, event = heappop(self._events)
            self.now_ns = max(self.now_ns, when_ns)
            event()
            self.now_ns += EVENT_NS


class SimClock:
    """The clock of a machine."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return EPOCH_MS + self._world.now_ns // 1_000_000

    def monotonic_ms(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return self._world.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return self._world.now_ns
