"""A connection whose network, clock and dispatcher are controlled by the test."""

from __future__ import annotations

import heapq
import struct
from collections import deque
from collections.abc import Callable
from itertools import count

from odradek.env.network import Address
from odradek.network.connection import Connection
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.turns import Turns

PRODUCE, OTHER = b"\0\0", b"\0\1"


def frame(payload: bytes, key: bytes = OTHER) -> bytes:
    body = key + b"\0\0" + b"\0\0\0\0" + payload
    return struct.pack(">i", len(body)) + body


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedLoop:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now, callback)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback()
        self.now = end


class ScriptedTransport:
    """Receives what the test has put into `incoming`, takes as much as `room` says."""

    def __init__(self) -> None:
        self.local_address = Address("10.0.0.1", 9092)
        self.peer_address = Address("10.0.0.9", 50000)
        self.incoming: deque[bytes] = deque()
        """Pieces; an empty one is the end of the stream."""
        self.room = 1 << 40
        self.sent = bytearray()
        self.announced: list[bool] = []
        """For each call of `send_file`, whether other bytes were announced."""
        self.reader: Callable[[], object] | None = None
        self.writer: Callable[[], object] | None = None
        self.is_preferred = False
        self.is_closed = False

    def recv_into(self, buffer: memoryview) -> int:
        if not self.incoming:
            raise BlockingIOError
        piece = self.incoming.popleft()
        taken = min(len(piece), len(buffer))
        buffer[:taken] = piece[:taken]
        if taken < len(piece):
            self.incoming.appendleft(piece[taken:])
        return taken

    def send(self, data) -> int:
        if not self.room:
            raise BlockingIOError
        taken = min(self.room, len(data))
        self.room -= taken
        self.sent += data[:taken]
        return taken

    def send_parts(self, parts, more: bool = False) -> int:
        return self.send(b"".join(parts))

    def send_file(self, part, more: bool = False) -> int:
        self.announced.append(more)
        return self.send(part.owner[part.position : part.position + part.length])

    def watch_readable(self, callback) -> None:
        self.reader = callback

    def unwatch_readable(self) -> None:
        self.reader = None

    def watch_writable(self, callback) -> None:
        self.writer = callback

    def unwatch_writable(self) -> None:
        self.writer = None

    def prefer(self) -> None:
        self.is_preferred = True

    def close(self) -> None:
        self.reader = self.writer = None
        self.is_closed = True


class Scripted:
    """Owner of one connection; `dispatch` is given by the test."""

    def __init__(self, dispatch: Callable[[Connection, memoryview], None]) -> None:
        self.request_bytes_max = 100 * 1024 * 1024
        self.dispatch = dispatch
        self.knows_client = True
        self.buffers = ReceiveBuffers()
        self.loop = ScriptedLoop()
        self.turns = Turns(self.loop)
        self.transport = ScriptedTransport()
        self.connection = Connection(self.transport, "TEST", self, self.loop)

    def refuse_size(self, connection: Connection, size: int) -> None:
        connection.refuse()

    def forget(self, connection: Connection) -> None:
        assert connection.closed

    def receive(self, *pieces: bytes) -> None:
        """The pieces arrive, and are received as long as the connection wants to."""
        self.transport.incoming.extend(pieces)
        while self.transport.incoming and self.transport.reader is not None:
            self.transport.reader()
            self.loop.advance(0)

    def take(self, room: int) -> None:
        """The client takes so many bytes more."""
        self.transport.room = room
        if self.transport.writer is not None and room:
            self.transport.writer()
