"""A simulation: virtual time, a queue of events, a source of randomness, and a history.

Events run one after the other in the order of their time. Events with the same time run in the
order in which they were scheduled. Each event takes `EVENT_NS`, so that time always advances.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

EVENT_NS = 1_000
"""The duration of an event."""
EPOCH_MS = 1_700_000_000_000
"""The wall-clock time at the start of a simulation."""
END_NS = 150 * 1_000_000_000
"""The time limit of a simulation. A run that reaches the limit has failed."""


class NoEnd(Exception):
    """The awaited condition did not become true."""


class History:
    """The lines that nodes and clients note. Two runs are equal if their histories are equal."""

    def __init__(self) -> None:
        self.lines: list[str] = []


class Simulation:
    """The time, the events, the randomness and the history of one run."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self.now_ns = 0
        self.history = History()
        self.failures: list[str] = []
        """The violations that were found so far, and defects such as unhandled exceptions."""
        self._end_ns = END_NS
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def random(self, purpose: str) -> Random:
        """Return a generator of random numbers that no other purpose uses."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, source: str, text: str) -> None:
        """Add a line to the history."""
        self.history.lines.append(f"{self.now_ns // 1000} {source} {text}")

    def fail(self, text: str) -> None:
        """Record a violation or a defect, once."""
        if text not in self.failures:
            self.failures.append(text)

    def at(self, when_ns: int, event: Callable[[], None]) -> None:
        """Schedule the event at a time, or now if that time has passed."""
        self._number += 1
        heappush(self._events, (max(when_ns, self.now_ns), self._number, event))

    def after(self, delay_ns: int, event: Callable[[], None]) -> None:
        """Schedule the event after `delay_ns`."""
        self.at(self.now_ns + delay_ns, event)

    def limit(self, remaining_ns: int) -> None:
        """Set the time within which the run must end. At first it is `END_NS`."""
        self._end_ns = self.now_ns + remaining_ns

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run events until the condition is true.

        Raises:
            NoEnd: no event is left, or the run has taken too long (see `limit`).
        """
        while not is_over():
            if not self._events:
                raise NoEnd("all tasks wait and no event is scheduled")
            if self.now_ns > self._end_ns:
                raise NoEnd(f"no end after {self.now_ns // 1_000_000_000} s")
            when_ns, _, event = heappop(self._events)
            self.now_ns = max(self.now_ns, when_ns)
            event()
            self.now_ns += EVENT_NS


class SimClock:
    """The clock of a machine. It has the time of the simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def now_ms(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return EPOCH_MS + self._simulation.now_ns // 1_000_000

    def monotonic_ms(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return self._simulation.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        """See `odradek.env.clock.Clock`."""
        return self._simulation.now_ns
