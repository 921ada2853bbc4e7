"""The asyncio loop of a node: turns of bounded length, and a measure of the longest one.

Everything that serves clients runs on one thread. A turn of the loop serves the sockets that are
ready, then timers and what was scheduled meanwhile: acknowledgements that wait for a flush,
answers of the controller, the end of a long poll. With hundreds of busy clients these would wait
for a turn that serves all of them, so `MeasuredSelector` returns a few ready sockets at a time, in
order. It also records the longest turn: nothing else can happen in the node meanwhile.
"""

from __future__ import annotations

import asyncio
import selectors
from time import perf_counter

TURN_EVENTS_MAX = 16
"""Sockets served in one turn of the loop: about two milliseconds."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class MeasuredSelector(selectors.DefaultSelector):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.pause_seconds_max = 0.0
        """Longest busy time since `take_pause_max`."""
        self.turns = 0
        self._held: _Ready = []  # ready, and not handed out yet
        self._returned = perf_counter()

    def select(self, timeout: float | None = None) -> _Ready:
        """As the base class, some of the ready sockets at a time; the time is taken around it."""
        busy = perf_counter() - self._returned
        if busy > self.pause_seconds_max:
            self.pause_seconds_max = busy
        self.turns += 1
        ready = self._still_held() if self._held else super().select(timeout)
        if len(ready) > TURN_EVENTS_MAX:
            self._held = ready[TURN_EVENTS_MAX:]
            ready = ready[:TURN_EVENTS_MAX]
        self._returned = perf_counter()
        return ready

    def _still_held(self) -> _Ready:
        """What was held back, without sockets that have been closed or registered anew since.

        The next call of the base class reports those: readiness is a state here, not an event.
        """
        held, self._held = self._held, []
        registered = self.get_map()
        return [(key, events) for key, events in held if registered.get(key.fd) is key]

    def forget_pauses(self) -> None:
        """Measure from now on: nothing was served before."""
        self.pause_seconds_max = 0.0
        self._returned = perf_counter()

    def take_pause_max(self) -> float:
        """The longest busy time since the last call, in seconds."""
        pause, self.pause_seconds_max = self.pause_seconds_max, 0.0
        return pause


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, MeasuredSelector]:
    """A loop for a node, and the selector that measures it."""
    selector = MeasuredSelector()
    return asyncio.SelectorEventLoop(selector), selector
