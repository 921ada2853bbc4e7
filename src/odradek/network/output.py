"""Responses on their way out.

`send` gives the transport as much as it takes. Runs of bytes leave together; file ranges leave
without passing through this process, where the transport can do that.
"""

from __future__ import annotations

from typing import cast

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.network import Buffer, Transport
from odradek.network.responses import Part
from odradek.network.traffic import Traffic

COPIED_BYTES_PER_TURN = 256 * 1024
"""Of ranges that are in memory; then other connections have their turn. Copying a megabyte takes
half a millisecond, and a consumer on the same machine takes it as fast as it is sent. What the
kernel sends from a file is not bounded: it is not copied."""

PARTS_MAX = 16
"""Given to the transport one by one; more are joined first, so that what remains is one part."""


class Output:
    """See the module."""

    __slots__ = ("_send", "_traffic", "_transport", "parts", "queued_bytes")

    def __init__(self, transport: Transport, traffic: Traffic) -> None:
        self._traffic = traffic
        self._transport = transport
        self._send = transport.send
        self.parts: list[Part] = []
        """What is to be sent, in order."""
        self.queued_bytes = 0
        """Of what was added since everything had been sent."""

    def add(self, parts: list[Part], length: int) -> None:
        """A response of `length` bytes, behind all others."""
        self.parts += parts
        self.queued_bytes += length

    def clear(self) -> None:
        """Forget what was not sent."""
        self.parts.clear()
        self.queued_bytes = 0

    def send(self) -> bool:
        """Send as much as the transport takes; whether that is everything.

        Raises:
            OSError: the connection is lost, or a file cannot be read.
        """
        parts = self.parts
        allowed = COPIED_BYTES_PER_TURN
        try:
            while parts:
                part = parts[0]
                if not isinstance(part, FileRange):
                    if not self._send_bytes():
                        return False
                    continue
                if isinstance(part, BufferedRange):
                    length = part.length
                    if not self._send_memory(part, allowed):
                        return False
                    allowed -= length
                else:
                    self._send_file(part)
                del parts[0]
        except BlockingIOError:
            return False
        self.queued_bytes = 0
        return True

    def _send_bytes(self) -> bool:
        """Send the bytes before the next range; whether all were taken."""
        parts = self.parts
        count = len(parts)
        if count == 1:
            data = cast("Buffer", parts[0])
            sent = self._send(data)
            self._traffic.count_out(sent)
            if sent == len(data):
                parts.clear()
                return True
            parts[0] = memoryview(data)[sent:]
            return False
        stop = 1
        while stop < count and not isinstance(parts[stop], FileRange):
            stop += 1
        run = cast("list[Buffer]", parts[:stop])
        if stop > PARTS_MAX:
            run = [b"".join(run)]
            parts[:stop] = run
            stop = 1
            count = len(parts)
        sent = self._transport.send_parts(run, stop < count)
        self._traffic.count_out(sent)
        for at, data in enumerate(run):
            if sent < len(data):
                parts[: at + 1] = [memoryview(data)[sent:]]
                return False
            sent -= len(data)
        del parts[:stop]
        return True

    def _send_file(self, part: FileRange) -> None:
        """Send the whole range."""
        while part.length:
            sent = self._transport.send_file(part)
            if sent == 0:
                raise OSError("file ends before the range that was promised")
            self._advance(part, sent)

    def _send_memory(self, part: BufferedRange, allowed: int) -> bool:
        """Send so many bytes of the range at most; whether that is all of it."""
        end = part.position + min(part.length, allowed)
        while part.position < end:
            self._advance(part, self._send(part.memory[part.position : end]))
        return not part.length

    def _advance(self, part: FileRange, sent: int) -> None:
        part.position += sent
        part.length -= sent
        self._traffic.count_out(sent)
