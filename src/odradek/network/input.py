"""The bytes that a connection has received and not processed yet.

Usually there are no such bytes, because frames are dispatched from the shared buffer into which
they were received. Bytes are held here in two cases:

- Only the beginning of a frame has arrived. `receive` receives more bytes after the beginning, up
  to the end of the frame. If the beginning is short, `receive` first copies it to the shared buffer
  and then receives as many bytes as fit into the shared buffer.
- The connection may not process frames now. `read_ahead` receives a small number of bytes, so that
  the end of the stream is noticed. It holds at most `READ_AHEAD_BYTES_MAX`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from odradek.env.large_memory import enlarge
from odradek.network.receive_buffers import (
    GROWTH,
    LENT_BYTES_MIN,
    SMALL_BYTES_MAX,
    ReceiveBuffers,
)

READ_AHEAD_BYTES_MAX: Final = 64 * 1024
"""Maximum number of bytes that are held while a client's requests may not be processed."""
RECEIVED_BYTES_MAX: Final = 1024 * 1024
"""Maximum number of bytes that are received at once. More would delay other clients."""
LENGTH_BYTES: Final = 4
"""Size of the length field before a frame. The field is a big-endian integer with the length of the
frame."""
_READ_AHEAD_BYTES_MIN: Final = 1024

_length: Final = struct.Struct(">i").unpack_from

Receive = Callable[[memoryview], int]


class Input:
    """The held bytes of one connection. They are `memory[start:end]`; `memory` may be None."""

    __slots__ = ("_buffers", "_receive", "end", "memory", "start", "stop")

    def __init__(self, buffers: ReceiveBuffers, receive: Receive) -> None:
        """`receive` is the transport's `recv_into`."""
        self._buffers = buffers
        self._receive = receive
        self.memory: memoryview | None = None
        self.start = 0
        self.end = 0
        self.stop = 0
        """The position in `memory` where the first frame ends. It may be greater than the length of
        `memory`. It is 0 if the length field of the frame has not arrived completely."""

    def __len__(self) -> int:
        return self.end - self.start

    def keep(self, view: memoryview, start: int, end: int) -> None:
        """Hold exactly `view[start:end]`, which may be a part of the held bytes."""
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

        Return (view, start, end, received). `view[start:end]` are all unprocessed bytes; they are
        valid until `keep` or `clear`. `received` is the number of new bytes.

        Raises:
            BlockingIOError, OSError: the transport raised the error. The held bytes are kept.
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
                memory = self._grow(memory, count, stop - self.start)
                end, stop = self.end, self.stop
        received = self._receive(memory[end : min(stop, end + RECEIVED_BYTES_MAX)])
        self.end = end = end + received
        return memory, self.start, end, received

    def _grow(self, memory: memoryview, count: int, size: int) -> memoryview:
        """Return larger memory with the held bytes, of a frame of `size` bytes."""
        memory = self.memory = enlarge(memory, self.start + self._buffers.length(count, size))
        if len(memory) > self.end:
            return memory
        return self._move(memory, self.start, self.end, self._buffers.lend(count, size), size)

    def read_ahead(self) -> int | None:
        """Receive and hold a small number of bytes.

        Return the number of received bytes; None if enough bytes are held.

        Raises:
            BlockingIOError, OSError: the transport raised the error.
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
        """Copy `view[start:end]` into `memory`, and return `memory`.

        `size` is the size of the first frame with its length field; 0 if it is unknown.
        """
        count = end - start
        memory[:count] = view[start:end]
        self.clear()
        self.memory = memory
        self.end = count
        self.stop = size
        return memory
