"""The bytes that one connection must send: a server's responses, or a client's requests.

A response is queued when all responses to earlier requests are queued (`ResponseOrder`). `send`
passes as many bytes to the transport as the transport accepts. Adjacent byte strings are sent in
one call. If the transport supports it, a range of a file is sent without a copy into this process.
"""

from __future__ import annotations

from typing import Final

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.network import Buffer, Transport
from odradek.network.responses import Part, ResponseOrder

COPIED_BYTES_PER_TURN: Final = 256 * 1024
"""Maximum number of bytes of `BufferedRange`s that are sent before other connections are served.
Sending a megabyte takes half a millisecond, because the bytes are copied. A consumer on the same
machine can accept many megabytes without a pause."""
FILE_BYTES_PER_TURN: Final = 2 * 1024 * 1024
"""After so many bytes of files, other connections are served. The kernel sends them from a file in half
a millisecond or more."""


class Output:
    """The output queue of one connection."""

    __slots__ = ("_order", "_send", "_transport", "bytes_out", "parts", "queued_bytes")

    def __init__(self, transport: Transport, order: ResponseOrder | None = None) -> None:
        """Only `respond` needs `order`."""
        self._order = order or ResponseOrder()
        self._transport = transport
        self._send = transport.send
        self.parts: list[Part] = []
        """The bytes and ranges to send, in order."""
        self.queued_bytes = 0
        """Bytes that were added since the queue was last empty."""
        self.bytes_out = 0
        """Bytes that the transport has accepted."""

    def respond(self, parts: list[Part], length: int) -> None:
        """Add the response to the newest request: `length` bytes in `parts`."""
        if self._order.slots is not None:
            self._order.add(parts)
        else:
            self.parts += parts
            self.queued_bytes += length

    def queue(self, parts: list[Part], length: int) -> None:
        """Queue `length` bytes in `parts`."""
        self.parts += parts
        self.queued_bytes += length

    def queue_ready(self) -> None:
        """Queue the responses that need not wait for an earlier response."""
        ready = self._order.take_ready()
        self.queue(ready, sum(map(len, ready)))

    def clear(self) -> None:
        """Drop all unsent bytes."""
        self.parts.clear()
        self.queued_bytes = 0

    def send(self) -> bool:
        """Send as many bytes as the transport accepts; return whether all were sent.

        Raises:
            OSError: the connection is lost, or a file cannot be read.
        """
        parts = self.parts
        allowed = COPIED_BYTES_PER_TURN
        file_allowed = FILE_BYTES_PER_TURN
        try:
            while parts:
                part = parts[0]
                if not isinstance(part, FileRange):
                    if len(parts) > 1:
                        part = self._join_bytes()
                    is_last = len(parts) == 1
                    sent = (
                        self._send(part) if is_last else self._transport.send_parts((part,), True)
                    )
                    self.bytes_out += sent
                    if sent < len(part):
                        parts[0] = memoryview(part)[sent:]
                        return False
                elif isinstance(part, BufferedRange):
                    length = part.length
                    if not self._send_memory(part, allowed):
                        return False
                    allowed -= length
                else:
                    file_allowed = self._send_file(part, file_allowed, len(parts) > 1)
                    if part.length:
                        return False
                del parts[0]
        except BlockingIOError:
            return False
        self.queued_bytes = 0
        return True

    def _join_bytes(self) -> Buffer:
        """Replace the bytes before the next file range by one byte string, and return it."""
        parts = self.parts
        stop = 1
        while stop < len(parts) and not isinstance(parts[stop], FileRange):
            stop += 1
        if stop > 1:
            parts[:stop] = [b"".join(parts[:stop])]  # type: ignore[arg-type]
        return parts[0]  # type: ignore[return-value]

    def _send_file(self, part: FileRange, allowed: int, more: bool) -> int:
        """Send the range until it ends or until `allowed` bytes were sent, perhaps a few more.

        `more` says that other parts follow. Return the number of bytes that may still be sent.
        """
        while part.length and allowed > 0:
            sent = self._transport.send_file(part, more)
            if sent == 0:
                raise OSError("file ends before the range that was promised")
            part.advance(sent)
            self.bytes_out += sent
            allowed -= sent
        return allowed

    def _send_memory(self, part: BufferedRange, allowed: int) -> bool:
        """Send at most `allowed` bytes of the range; return whether all of it was sent."""
        end = part.position + min(part.length, allowed)
        while part.position < end:
            sent = self._send(part.memory[part.position : end])
            part.advance(sent)
            self.bytes_out += sent
        return not part.length
