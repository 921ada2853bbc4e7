"""The asyncio event loop of a node: it bounds the length of each turn and measures the longest one.

Everything that serves clients runs on one thread. A turn of the loop serves the sockets that are
ready, then the timers and the callbacks that were scheduled meanwhile: acknowledgements that wait
for a flush, responses of the controller, the end of a long poll. With hundreds of busy clients
these would wait until one turn has served all clients. Therefore `MeasuredSelector` returns a few
ready sockets at a time, in order. It also records the longest turn, because nothing else runs in
the node during a turn.
"""

from __future__ import annotations

import asyncio
import selectors
from time import perf_counter

TURN_EVENTS_MAX = 16
"""Sockets served in one turn of the loop: about two milliseconds."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class MeasuredSelector(selectors.DefaultSelector):
    """A selector that returns a few sockets at a time and measures turns; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self.pause_seconds_max = 0.0
        """The longest busy time since the last call of `take_pause_max`."""
        self.turns = 0
        self._held: _Ready = []  # ready, but not returned yet
        self._returned = perf_counter()

    def select(self, timeout: float | None = None) -> _Ready:
        """Select as the base class does, return only some ready sockets, and measure busy time."""
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
        """Return the events held back, without sockets closed or registered again since.

        The next call of the base class reports the latter: readiness is a state here, not an event.
        """
        held, self._held = self._held, []
        registered = self.get_map()
        return [(key, events) for key, events in held if registered.get(key.fd) is key]

    def forget_pauses(self) -> None:
        """Restart the measurement now, before the first client is served."""
        self.pause_seconds_max = 0.0
        self._returned = perf_counter()

    def take_pause_max(self) -> float:
        """Return the longest busy time since the last call, in seconds, and reset it."""
        pause, self.pause_seconds_max = self.pause_seconds_max, 0.0
        return pause


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, MeasuredSelector]:
    """Return an event loop for a node, and the selector that measures it."""
    selector = MeasuredSelector()
    return asyncio.SelectorEventLoop(selector), selector
