"""Virtual time: a queue of events, one source of randomness, one history.

Events run one after the other by time; events of the same time run in the order in which they were
scheduled. Each takes `EVENT_NS`, so that time always advances.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

EVENT_NS = 1_000
"""Duration of an event."""
EPOCH_MS = 1_700_000_000_000
"""Wall-clock time when a world begins."""
END_NS = 300 * 1_000_000_000
"""A world that still runs after this time is considered endless."""


class NoEnd(Exception):
    """The awaited condition has not occurred."""


class History:
    """One line for each event; two runs are equal if their histories are."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def digest(self) -> str:
        """Digest of all lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


class World:
    """See the module."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self.now_ns = 0
        self.history = History()
        self.failures: list[str] = []
        """Unhandled exceptions, which are defects."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def random(self, purpose: str) -> Random:
        """Return random numbers for one purpose, independent of those for other purposes."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, source: str, text: str) -> None:
        """Add a line to the history."""
        self.history.lines.append(f"{self.now_ns // 1000} {source} {text}")

    def at(self, when_ns: int, event: Callable[[], None]) -> None:
        """Run the event at that time, or now if that time is past."""
        self._number += 1
        heappush(self._events, (max(when_ns, self.now_ns), self._number, event))

    def after(self, delay_ns: int, event: Callable[[], None]) -> None:
        """Run the event after that many nanoseconds."""
        self.at(self.now_ns + delay_ns, event)

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run events until the condition holds after one.

        Raises:
            NoEnd: no event is left, or `END_NS` is reached.
        """
        while not is_over():
            if not self._events:
                raise NoEnd("all tasks wait and no event is scheduled")
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
