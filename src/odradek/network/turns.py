"""Lets connections with many pipelined requests take turns.

A client may send thousands of small requests at once. If all of them were processed in one iteration
of the event loop, other clients would wait for seconds. Therefore a connection processes only some
requests, and then waits for its next turn. In each iteration, only a few of the connections that
wait have their turn. Between these iterations, the sockets of others are served. While connections
wait, a turn has fewer requests, so that new ones are served soon.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

FRAMES_ALONE: Final = 32
"""Requests of a connection that are processed in one turn if no other connection waits."""
FRAMES_BESIDE_OTHERS: Final = 4
TURNS_AT_ONCE: Final = 8
"""Connections that have their next turn in the same iteration of the event loop."""


class Turns:
    """The connections of one server that wait for their next turn."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "frames")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self.frames = FRAMES_ALONE
        """Requests that a connection may process now in one turn."""

    def wait(self, take_turn: Callable[[], None]) -> None:
        """Call `take_turn` later. It may call `wait` again."""
        self._waiting.append(take_turn)
        self.frames = FRAMES_BESIDE_OTHERS
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        try:
            for _ in range(min(TURNS_AT_ONCE, len(self._waiting))):
                take_turn = self._waiting.popleft()
                if not self._waiting:
                    self.frames = FRAMES_ALONE
                take_turn()
        finally:
            self._schedule()
