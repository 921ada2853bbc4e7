"""The asyncio loop of a node, with a measure of its longest pause.

Everything that serves clients runs on one thread, so the time between two looks at the sockets
is the time that anyone may have to wait. `MeasuredSelector` notes the longest one.
"""

from __future__ import annotations

import asyncio
import selectors
from time import perf_counter
from typing import Any


class MeasuredSelector(selectors.DefaultSelector):
    """A selector that knows how long the loop was busy between two calls of `select`."""

    def __init__(self) -> None:
        super().__init__()
        self.pause_seconds_max = 0.0
        """Longest busy time since `take_pause_max`."""
        self.turns = 0
        self._returned = perf_counter()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the base class, with the time taken around it."""
        busy = perf_counter() - self._returned
        if busy > self.pause_seconds_max:
            self.pause_seconds_max = busy
        self.turns += 1
        ready: list[Any] = super().select(timeout)
        self._returned = perf_counter()
        return ready

    def take_pause_max(self) -> float:
        """The longest busy time since the last call, in seconds."""
        pause, self.pause_seconds_max = self.pause_seconds_max, 0.0
        return pause


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, MeasuredSelector]:
    """A loop for a node, and the selector that measures it."""
    selector = MeasuredSelector()
    return asyncio.SelectorEventLoop(selector), selector
