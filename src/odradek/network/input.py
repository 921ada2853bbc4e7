"""The bytes that a connection has received and not processed.

Usually there are none: frames are dispatched from the shared buffer that they were received into.
Bytes stay here in two situations. The beginning of a frame waits for its rest: `receive` goes on
with it, in place and no further than its end, or, if it is short, from the beginning of the shared
buffer. Or the connection may not process anything now: then `read_ahead` takes a little more, so
that the end of the stream is noticed, and no more than `READ_AHEAD_BYTES_MAX` is held.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from odradek.network.receive_buffers import (
    GROWTH,
    LENT_BYTES_MIN,
    SMALL_BYTES_MAX,
    ReceiveBuffers,
)

READ_AHEAD_BYTES_MAX = 64 * 1024
"""Held of a client that may not be served yet; then nothing more is received."""
LENGTH_BYTES = 4
"""A frame begins with the length of the rest, as a big-endian integer."""
_READ_AHEAD_BYTES_MIN = 1024

_length = struct.Struct(">i").unpack_from

Receive = Callable[[memoryview], int]


class Input:
    """See the module: `memory[start:end]`, if there is memory."""

    __slots__ = ("_buffers", "_receive", "end", "memory", "start", "stop")

    def __init__(self, buffers: ReceiveBuffers, receive: Receive) -> None:
        """`receive` is the transport's `recv_into`."""
        self._buffers = buffers
        self._receive = receive
        self.memory: memoryview | None = None
        self.start = 0
        self.end = 0
        self.stop = 0
        """Where in memory the first frame ends, which may be behind it; 0 while that is unknown."""

    def __len__(self) -> int:
        return self.end - self.start

    def keep(self, view: memoryview, start: int, end: int) -> None:
        """Hold `view[start:end]`, which may be a part of what is held, and nothing else."""
        count = end - start
        size = LENGTH_BYTES + _length(view, start)[0] if count >= LENGTH_BYTES else 0
        if view is self.memory and len(view) <= max(LENT_BYTES_MIN, GROWTH * count):
            self.start = start
            self.stop = start + size if size else 0
        else:
            self._move(view, start, end, self._buffers.lend(count, max(count, size)), size)

    def clear(self) -> None:
        """Hold nothing."""
        if self.memory is not None:
            self._buffers.give_back(self.memory)
            self.memory = None
        self.start = self.end = self.stop = 0

    def receive(self) -> tuple[memoryview, int, int, int]:
        """Receive more of the frame whose beginning is held.

        Returns a view and the part of it, from its second to its third item, that holds all
        unprocessed bytes; it is valid until `keep` or `clear`. The fourth is how many bytes came.

        Raises:
            BlockingIOError, OSError: as the transport; what is held stays.
        """
        memory = self.memory
        assert memory is not None
        end, stop = self.end, self.stop
        if not 0 < stop <= len(memory):
            count = end - self.start
            if count <= SMALL_BYTES_MAX:
                shared = self._buffers.shared
                shared[:count] = memory[self.start : end]
                received = self._receive(shared[count:])
                return shared, 0, count + received, received
            if end == len(memory):
                size = stop - self.start
                larger = self._buffers.lend(count, size)
                memory = self._move(memory, self.start, end, larger, size)
                end, stop = self.end, self.stop
        received = self._receive(memory[end:stop])
        self.end = end = end + received
        return memory, self.start, end, received

    def read_ahead(self) -> int | None:
        """Receive a little of what cannot be processed now; bytes received, None if enough is held.

        Raises:
            BlockingIOError, OSError: as the transport.
        """
        count = len(self)
        room = READ_AHEAD_BYTES_MAX - count
        if room <= 0:
            return None
        memory = self.memory
        if memory is None:
            shared = self._buffers.shared
            received = self._receive(shared[:room])
            if received:
                self.keep(shared, 0, received)
            return received
        if self.end == len(memory):
            larger = memoryview(bytearray(max(_READ_AHEAD_BYTES_MIN, 2 * count)))
            size = self.stop - self.start if self.stop else 0
            memory = self._move(memory, self.start, self.end, larger, size)
        received = self._receive(memory[self.end : self.end + room])
        self.end += received
        return received

    def _move(
        self, view: memoryview, start: int, end: int, memory: memoryview, size: int
    ) -> memoryview:
        """Hold a copy, whose first frame has `size` bytes, in `memory`, which is returned."""
        count = end - start
        memory[:count] = view[start:end]
        self.clear()
        self.memory = memory
        self.end = count
        self.stop = size
        return memory
