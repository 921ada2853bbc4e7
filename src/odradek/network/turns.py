"""Lets connections with many pipelined requests take turns.

A client may send thousands of small requests at once. If all of them were processed in one iteration
of the event loop, other clients would wait for seconds. Therefore a connection processes only some
requests, for a short time, and then waits for its next turn. In each iteration, only a few of the
connections that wait have their turn, also for a short time. Between these iterations, the sockets of
others are served. While connections wait, a turn has fewer requests, so that new ones are served
soon. The clients' addresses take turns, so that many connections of one address do not delay those
of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from odradek.env.fair_queue import FairQueue

FRAMES_ALONE: Final = 32
"""Requests of a connection that are processed in one turn if no other connection waits."""
FRAMES_BESIDE_OTHERS: Final = 4
TURNS_AT_ONCE: Final = 8
"""Connections that have their next turn in the same iteration of the event loop."""
SECONDS_ALONE: Final = 0.001
"""No request of a turn, except the first two, begins later than this after the first one, if no other
connection waits."""
SECONDS_BESIDE_OTHERS: Final = 0.00025
ROUND_SECONDS: Final = 0.00025
"""No turn begins later than this after the first one of an iteration."""


class Turns:
    """The connections of one server that wait for their next turn."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "frames", "now", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = loop.time
        """The time in seconds."""
        self._waiting: FairQueue[Callable[[], None]] = FairQueue()
        self._is_scheduled = False
        self.frames = FRAMES_ALONE
        """Requests that a connection may process now in one turn."""
        self.seconds = SECONDS_ALONE
        """The time after which a turn ends, if more than two requests were processed."""

    @property
    def waiting(self) -> int:
        """The number of connections that wait."""
        return len(self._waiting)

    def wait(self, host: str, take_turn: Callable[[], None]) -> None:
        """Call `take_turn` later. It may call `wait` again. `host` is the client's address."""
        self._waiting.add(host, take_turn)
        self.frames, self.seconds = FRAMES_BESIDE_OTHERS, SECONDS_BESIDE_OTHERS
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        deadline = self.now() + ROUND_SECONDS
        try:
            for _ in range(min(TURNS_AT_ONCE, len(self._waiting))):
                take_turn = self._waiting.take()
                if not self._waiting:
                    self.frames, self.seconds = FRAMES_ALONE, SECONDS_ALONE
                take_turn()
                if self.now() > deadline:
                    break
        finally:
            self._schedule()
