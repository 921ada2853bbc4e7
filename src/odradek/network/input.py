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

from odradek.network.receive_buffers import SMALL_BYTES_MAX, ReceiveBuffers

READ_AHEAD_BYTES_MAX = 64 * 1024
"""Held of a client that may not be served yet; then nothing more is received."""
LENGTH_BYTES = 4
"""A frame begins with the length of the rest, as a big-endian integer."""
_READ_AHEAD_BYTES_MIN = 1024

_length = struct.Struct(">i").unpack_from

Receive = Callable[[memoryview], int]


class Input:
    """See the module: `memory[start:end]`, if there is memory."""

    __slots__ = ("_buffers", "_receive", "_size", "end", "memory", "start")

    def __init__(self, buffers: ReceiveBuffers, receive: Receive) -> None:
        """`receive` is the transport's `recv_into`."""
        self._buffers = buffers
        self._receive = receive
        self.memory: memoryview | None = None
        self.start = 0
        self.end = 0
        self._size = 0
        """Of the first frame with its length, as far as that is known; 0 if it is not."""

    def __len__(self) -> int:
        return self.end - self.start

    def keep(self, view: memoryview, start: int, end: int) -> None:
        """Hold `view[start:end]`, which may be a part of what is held, and nothing else."""
        count = end - start
        self._size = 0
        if count >= LENGTH_BYTES:
            self._size = LENGTH_BYTES + _length(view, start)[0]
        if view is self.memory:
            self.start = start
            return
        self._move(view, start, end, self._buffers.lend(count, max(count, self._size)))

    def clear(self) -> None:
        """Hold nothing."""
        if self.memory is not None:
            self._buffers.give_back(self.memory)
            self.memory = None
        self.start = self.end = self._size = 0

    def receive(self) -> tuple[memoryview, int, int, int]:
        """Receive more of the frame whose beginning is held.

        Returns a view and the part of it, from its second to its third item, that holds all
        unprocessed bytes; it is valid until `keep` or `clear`. The fourth is how many bytes came.

        Raises:
            BlockingIOError, OSError: as the transport; what is held stays.
        """
        memory = self.memory
        assert memory is not None
        start, end = self.start, self.end
        count = end - start
        stop = start + self._size
        if stop > len(memory) or not self._size:
            if count <= SMALL_BYTES_MAX:
                shared = self._buffers.shared
                shared[:count] = memory[start:end]
                received = self._receive(shared[count:])
                return shared, 0, count + received, received
            if end == len(memory):
                memory = self._move(memory, start, end, self._buffers.lend(count, self._size))
                start, end = 0, count
                stop = self._size
        received = self._receive(memory[end:stop])
        self.end = end = end + received
        return memory, start, end, received

    def read_ahead(self) -> int | None:
        """Receive a little of what cannot be processed now; bytes received, None if enough is held.

        Raises:
            BlockingIOError, OSError: as the transport.
        """
        room = READ_AHEAD_BYTES_MAX - len(self)
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
            length = max(_READ_AHEAD_BYTES_MIN, 2 * len(self))
            memory = self._move(memory, self.start, self.end, memoryview(bytearray(length)))
        received = self._receive(memory[self.end : self.end + room])
        self.end += received
        return received

    def _move(self, view: memoryview, start: int, end: int, memory: memoryview) -> memoryview:
        """Hold a copy, in `memory`, which is returned."""
        count = end - start
        memory[:count] = view[start:end]
        size = self._size
        self.clear()
        self.memory = memory
        self.end = count
        self._size = size
        return memory
