"""The asyncio event loop of a node, with short iterations and a measurement of the longest one.

All code that serves clients runs on one thread. Each iteration of the event loop serves the sockets
that are ready, then timers and callbacks. Examples of callbacks are acknowledgements that wait for
a flush, responses of the controller, and the end of a long poll. With hundreds of busy clients, an
iteration that serves all ready sockets would delay these callbacks. Therefore `MeasuredSelector`
returns only a few ready sockets at a time, in order.

`MeasuredSelector` also records the duration of the longest iteration. During an iteration, no other
code of the node runs on this thread.
"""

from __future__ import annotations

import asyncio
import selectors
from time import perf_counter

TURN_EVENTS_MAX = 16
"""Sockets served in one iteration of the event loop. This takes about two milliseconds."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class MeasuredSelector(selectors.DefaultSelector):
    """A selector that returns a few ready sockets at a time and measures iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.pause_seconds_max = 0.0
        """Duration of the longest iteration since the last call of `take_pause_max`, in seconds."""
        self.turns = 0
        self._held: _Ready = []  # ready, but not returned yet
        self._returned = perf_counter()

    def select(self, timeout: float | None = None) -> _Ready:
        """Return some of the ready sockets, and measure the iteration that ends with this call."""
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
        """Return the ready sockets that were held back.

        Leave out sockets that were closed or registered again in the meantime. If a socket that was
        registered again is still ready, the base class reports it in the next call.
        """
        held, self._held = self._held, []
        registered = self.get_map()
        return [(key, events) for key, events in held if registered.get(key.fd) is key]

    def forget_pauses(self) -> None:
        """Restart the measurement. The node calls this before it serves the first client."""
        self.pause_seconds_max = 0.0
        self._returned = perf_counter()

    def take_pause_max(self) -> float:
        """Return the duration of the longest iteration in seconds, and reset the value to 0."""
        pause, self.pause_seconds_max = self.pause_seconds_max, 0.0
        return pause


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, MeasuredSelector]:
    """Return an event loop for a node, and its selector."""
    selector = MeasuredSelector()
    return asyncio.SelectorEventLoop(selector), selector
