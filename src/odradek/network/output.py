"""What one connection has to send: responses, or a client's requests.

A response that is ready waits behind those of earlier requests (`ResponseOrder`), then it is queued.
`send` gives the transport as much as it takes. Runs of bytes leave together; file ranges leave
without passing through this process, where the transport can do that.
"""

from __future__ import annotations

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.network import Buffer, Transport
from odradek.network.responses import Part, ResponseOrder
from odradek.network.traffic import Traffic

COPIED_BYTES_PER_TURN = 256 * 1024
"""Of ranges that are in memory; then other connections have their turn. Copying a megabyte takes
half a millisecond, and a consumer on the same machine takes it as fast as it is sent. What the
kernel sends from a file is not bounded: it is not copied."""


class Output:
    """See the module."""

    __slots__ = ("_order", "_send", "_traffic", "_transport", "parts", "queued_bytes")

    def __init__(
        self, transport: Transport, traffic: Traffic, order: ResponseOrder | None = None
    ) -> None:
        """`order` is what `respond` needs."""
        self._order = order or ResponseOrder()
        self._traffic = traffic
        self._transport = transport
        self._send = transport.send
        self.parts: list[Part] = []
        """What is to be sent, in order."""
        self.queued_bytes = 0
        """Of what was added since everything had been sent."""

    def respond(self, parts: list[Part], length: int) -> None:
        """The response to the latest request: `length` bytes in `parts`."""
        if self._order.slots is not None:
            self._order.add(parts)
        else:
            self.parts += parts
            self.queued_bytes += length

    def queue(self, parts: list[Part], length: int) -> None:
        """So many bytes in `parts`, behind everything that is queued."""
        self.parts += parts
        self.queued_bytes += length

    def queue_ready(self) -> None:
        """Queue the responses whose turn has come."""
        ready = self._order.take_ready()
        self.queue(ready, sum(map(len, ready)))

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
                    if not self._send_bytes(parts):
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
            if parts:  # or nothing but empty ones was left
                return False
        self.queued_bytes = 0
        return True

    def _send_bytes(self, parts: list[Part]) -> bool:
        """Send the bytes before the next range; whether all were taken."""
        count = stop = len(parts)
        if count == 1 or isinstance(parts[1], FileRange):
            stop = 1
            data: Buffer = parts[0]  # type: ignore[assignment]  # no range, as the caller saw
        else:
            try:
                data = b"".join(parts)  # type: ignore[arg-type]
            except TypeError:  # there is a range
                stop = next(i for i, part in enumerate(parts) if isinstance(part, FileRange))
                data = b"".join(parts[:stop])  # type: ignore[arg-type]
        sent = 0
        try:
            sent = self._send(data) if stop == count else self._transport.send_parts((data,), True)
        finally:
            self._traffic.count_out(sent)
            if sent == len(data):
                del parts[:stop]
            else:
                parts[:stop] = [memoryview(data)[sent:]]
        return sent == len(data)

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
