"""The asyncio event loop of a node, with short iterations and a measurement of the longest one.

All code that serves clients runs on one thread. Each iteration of the event loop serves the sockets
that are ready, then timers and callbacks. Examples of callbacks are acknowledgements that wait for
a flush, responses of the controller, and the end of a long poll. With hundreds of busy clients, an
iteration that serves all ready sockets would delay these callbacks. Therefore `NodeSelector`
returns only a few ready sockets at a time, in order. It returns fewer if the last iterations were
long.

Connections of clients that have not completed a request yet are *strangers* (`NodeSelector.defer`).
If many of them are ready at once, because they were all opened or reset, other sockets are served
first in each iteration, and the strangers' addresses take turns. A stranger that is ready is not
reported by the system again before it was served, so that a thousand of them cost nothing while they
wait. This uses EPOLLONESHOT, so it works on Linux only. On other systems strangers are served like
all sockets.

`NodeSelector` also records the duration of the longest iteration. During an iteration, no other
code of the node runs on this thread.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections import deque
from collections.abc import Callable
from math import ceil
from time import perf_counter
from typing import Any, cast

from odradek.env.fair_queue import FairQueue

TURN_EVENTS_MAX = 16
"""Sockets served in one iteration of the event loop. This usually takes about two milliseconds."""
LONG_SECONDS = 0.002
"""After an iteration that took longer, the next ones serve half as many sockets."""
SHORT_SECONDS = 0.001
"""After an iteration that took less time, the next one serves one socket more."""
TURN_EVENTS_MIN = 4
"""So many sockets, besides strangers, are served in any case."""
STRANGERS_BESIDE_OTHERS_MAX = 4
"""Strangers served in one iteration if other sockets are ready, too."""

_Event = tuple[selectors.SelectorKey, int]
_Ready = list[_Event]
_ONE_SHOT: int = getattr(select, "EPOLLONESHOT", 0)
_HAS_EPOLL = issubclass(selectors.DefaultSelector, getattr(selectors, "EpollSelector", ()))
_NOT_IN = ~getattr(select, "EPOLLIN", 0)
_NOT_OUT = ~getattr(select, "EPOLLOUT", 0)
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class NodeSelector(selectors.DefaultSelector):
    """A selector that returns a few ready sockets at a time and measures iterations."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        """`clock` returns seconds."""
        super().__init__()
        self.pause_seconds_max = 0.0
        """Duration of the longest iteration since the last call of `take_pause_max`, in seconds."""
        self.turns = 0
        self.idle_seconds = 0.0
        """Time that was spent on waiting for sockets and timers."""
        self._clock = clock
        self._events_max = TURN_EVENTS_MAX
        """How many sockets the next iteration serves at most, or strangers if nobody else is ready."""
        self._held: deque[_Event] = deque()
        """Ready sockets that are not returned yet."""
        self._strangers: dict[int, str] = {}
        """The descriptor and the client's address of each stranger."""
        self._held_strangers: FairQueue[_Event] = FairQueue()
        self._returned = clock()
        self._share_read = self._returned, 0.0
        """The time of the last call of `take_idle_share`, and `idle_seconds` then."""

    def select(self, timeout: float | None = None) -> _Ready:
        """Return some of the ready sockets, and measure the iteration that ends with this call."""
        began = self._clock()
        busy = began - self._returned
        if busy > self.pause_seconds_max:
            self.pause_seconds_max = busy
        if busy > LONG_SECONDS:
            self._events_max = max(1, self._events_max // 2)
        elif self._events_max < TURN_EVENTS_MAX and busy < SHORT_SECONDS:
            self._events_max += 1
        self.turns += 1
        if self._held:
            ready = self._still_held()
        else:
            ready = self._poll(0 if self._held_strangers else timeout)
            if self._strangers:
                ready = self._hold_strangers(ready)
            if len(ready) > TURN_EVENTS_MIN:
                count = max(TURN_EVENTS_MIN, self._events_max)
                self._held.extend(ready[count:])
                del ready[count:]
        if self._held_strangers:
            self._add_strangers(ready)
        returned = self._returned = self._clock()
        self.idle_seconds += returned - began
        return ready

    def _poll(self, timeout: float | None) -> _Ready:
        """Return all ready sockets as the base class does, but call no function for each of them."""
        if not _HAS_EPOLL:
            return super().select(timeout)
        registered = self._registered
        if timeout is None:
            timeout = -1
        elif timeout > 0:
            timeout = ceil(timeout * 1e3) * 1e-3  # less than a ms would be 0
        else:
            timeout = 0
        ready: _Ready = []
        try:
            found = self._selector.poll(timeout, len(registered) or 1)  # type: ignore[attr-defined]
        except InterruptedError:
            return ready
        for descriptor, event in found:
            key = registered.get(descriptor)
            if key is not None:
                events = _WRITE if event & _NOT_IN else 0
                if event & _NOT_OUT:
                    events |= _READ
                ready.append((key, events & key.events))
        return ready

    def _still_held(self) -> _Ready:
        """Return some ready sockets that were held back.

        Leave out sockets that were closed or registered again in the meantime. If a socket that was
        registered again is still ready, the base class reports it in the next call.
        """
        held, registered = self._held, self._registered
        ready: _Ready = []
        count = max(TURN_EVENTS_MIN, self._events_max)
        while held and len(ready) < count:
            event = held.popleft()
            if registered.get(event[0].fd) is event[0]:
                ready.append(event)
        return ready

    @property
    def _registered(self) -> dict[int, selectors.SelectorKey]:
        """The registered sockets by descriptor. `get_map` returns a slow wrapper of it."""
        return cast("dict[int, selectors.SelectorKey]", self._fd_to_key)  # type: ignore[attr-defined]

    # -- strangers --------------------------------------------------------------------------

    def defer(self, descriptor: int, host: str) -> None:
        """Serve a socket after others, as one of `host`, until `prefer` is called.

        This also applies if the socket is not registered yet, or is registered again.
        """
        if _ONE_SHOT:
            self._strangers[descriptor] = host
            key = self._registered.get(descriptor)
            if key is not None:
                self._arm(key, _ONE_SHOT)

    def prefer(self, descriptor: int) -> None:
        """Serve a socket like all others again. Call it before the socket is closed."""
        if self._strangers.pop(descriptor, None) is not None:
            key = self._registered.get(descriptor)
            if key is not None:
                self._arm(key, 0)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        key = super().register(fileobj, events, data)
        if key.fd in self._strangers:
            self._arm(key, _ONE_SHOT)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        key = super().modify(fileobj, events, data)
        if key.fd in self._strangers:
            self._arm(key, _ONE_SHOT)
        return key

    def _arm(self, key: selectors.SelectorKey, option: int) -> None:
        mask = option
        if key.events & selectors.EVENT_READ:
            mask |= select.EPOLLIN
        if key.events & selectors.EVENT_WRITE:
            mask |= select.EPOLLOUT
        self._selector.modify(key.fd, mask)  # type: ignore[attr-defined]

    def _hold_strangers(self, ready: _Ready) -> _Ready:
        """Hold the strangers back, and return the others."""
        others: _Ready = []
        for event in ready:
            host = self._strangers.get(event[0].fd)
            if host is None:
                others.append(event)
            else:
                self._held_strangers.add(host, event)
        return others

    def _add_strangers(self, ready: _Ready) -> None:
        """Add some strangers to the other ready sockets, and let the system report them again."""
        held, registered, strangers = self._held_strangers, self._registered, self._strangers
        count = self._events_max
        if ready:
            count = min(count, STRANGERS_BESIDE_OTHERS_MAX)
        while held and count:
            event = held.take()
            key = event[0]
            if registered.get(key.fd) is key and key.fd in strangers:
                self._arm(key, _ONE_SHOT)
                ready.append(event)
                count -= 1

    # -- the measurement --------------------------------------------------------------------

    def forget_pauses(self) -> None:
        """Restart the measurement. The node calls this before it serves the first client."""
        self.pause_seconds_max = 0.0
        self._returned = self._clock()

    def take_idle_share(self) -> float:
        """Return the share of the time (0 to 1) that was idle since the last call."""
        now, idle = self._clock(), self.idle_seconds
        before, idle_before = self._share_read
        self._share_read = now, idle
        return min(1.0, (idle - idle_before) / (now - before)) if now > before else 1.0

    def take_pause_max(self) -> float:
        """Return the duration of the longest iteration in seconds, and reset the value to 0."""
        pause, self.pause_seconds_max = self.pause_seconds_max, 0.0
        return pause


class NodeEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose selector is known."""

    def __init__(self, node_selector: NodeSelector) -> None:
        super().__init__(node_selector)
        self.node_selector = node_selector


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, NodeSelector]:
    """Return an event loop for a node, and its selector."""
    selector = NodeSelector()
    return NodeEventLoop(selector), selector


def defer(loop: asyncio.AbstractEventLoop, descriptor: int, host: str) -> bool:
    """Let a socket be a stranger; return whether it is one. Other event loops know no strangers."""
    if not isinstance(loop, NodeEventLoop):
        return False
    loop.node_selector.defer(descriptor, host)
    return True


def prefer(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """Serve a socket that was a stranger like all others. Call it before the socket is closed."""
    if isinstance(loop, NodeEventLoop):
        loop.node_selector.prefer(descriptor)
