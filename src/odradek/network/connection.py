"""One client's connection: frames in, responses out, in order, never more than it can hold.

A connection owns its non-blocking socket. `on_readable` receives into the buffer that all
connections of the server share, cuts frames out of it and hands each to the server's
dispatcher as a memoryview that is valid until the dispatcher returns. What the bytes of an
incomplete frame need is kept in a buffer of the connection's own, only while it is incomplete,
and that buffer grows with the bytes that arrive, not with the length that the client claims.

The dispatcher answers a frame at once (`respond`), or later (`defer`, then `Slot.complete`).
Answers leave in the order of the requests: a later one waits behind an open slot. After a
deferred request no further frame is processed until it is answered, as in Apache Kafka, except
that Produce requests may follow one another (`overlap`): their order is fixed when they are
appended, and only the acknowledgement is late.

Back-pressure: while unsent output remains, no frame is processed and nothing is read beyond
`BACKLOG_BYTES_MAX`. Parts of an answer are bytes-like, or `FileRange`s that go out by
`sendfile` without passing through this process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING

from odradek.env.file_range import BufferedRange, FileRange
from odradek.network.peer import Peer, nothing

if TYPE_CHECKING:
    from odradek.network.server import Server

Part = bytes | bytearray | memoryview | FileRange

BACKLOG_BYTES_MAX = 64 * 1024
"""Bytes read ahead of a client that may not be served yet; then its socket is left alone."""
OUTPUT_BYTES_MAX = 1024 * 1024
"""Answers collected while processing pipelined requests before they must leave."""
BUFFERED_BYTES_PER_TURN = 256 * 1024
"""Of ranges that were read; then the others have their turn. To copy a megabyte keeps them waiting
for half a millisecond, and a consumer on the same machine takes it as fast as it is sent. What
`sendfile` takes is not copied, and not bounded."""
PARTIAL_BYTES_MIN = 64 * 1024
"""The first size of a buffer for an incomplete frame; it doubles as bytes arrive."""
FRAME_BYTES_MIN = 8
"""The fixed part of the oldest request header."""

_length = struct.Struct(">i").unpack_from
_WOULD_BLOCK = (BlockingIOError, InterruptedError)


class Slot:
    """The place of an answer that is not there yet."""

    __slots__ = ("connection", "parts")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.parts: list[Part] | None = None

    def complete(self, parts: list[Part]) -> None:
        """Give the answer; empty for a request that gets none."""
        assert self.parts is None, "a request is answered once"
        self.parts = parts
        self.connection.on_slot_completed()


class Connection:
    """See the module. All methods run on the loop's thread."""

    __slots__ = (
        "_backlog",
        "_blocked",
        "_descriptor",
        "_loop",
        "_muted_until",
        "_out",
        "_out_bytes",
        "_overlap",
        "_partial",
        "_partial_filled",
        "_partial_size",
        "_processing",
        "_reading",
        "_server",
        "_slots",
        "_socket",
        "_writing",
        "active",
        "closed",
        "idle_sweeps",
        "peer",
        "state",
    )

    def __init__(
        self, sock: socket.socket, peer: Peer, server: Server, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._socket = sock
        self._descriptor = sock.fileno()
        self._server = server
        self._loop = loop
        self.peer = peer
        peer.close = self.close
        self.state: object | None = None
        """Belongs to the dispatcher."""
        self.closed = False
        self.active = True
        """Set by every sign of life, cleared by the server's sweep for idle connections."""
        self.idle_sweeps = 0
        self._partial: bytearray | None = None
        self._partial_filled = 0
        self._partial_size = 0
        self._backlog: bytearray | None = None
        self._blocked = False
        self._overlap = False
        self._processing = False
        self._slots: deque[Slot] | None = None
        self._out: list[Part] = []
        self._out_bytes = 0
        self._reading = True
        self._writing = False
        self._muted_until: asyncio.TimerHandle | None = None
        loop.add_reader(self._descriptor, self.on_readable)

    # -- input ------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """The socket has bytes, or its end."""
        server = self._server
        if self._blocked or self._writing or self._backlog is not None:
            self._read_ahead()
            return
        try:
            if self._partial is not None:
                self._read_partial()
                return
            count = self._socket.recv_into(server.buffer)
        except _WOULD_BLOCK:
            return
        except OSError:
            self.close()
            return
        if not count:
            self.close()
            return
        server.bytes_in += count
        self.active = True
        view = server.view
        consumed = self._process(view, 0, count)
        if consumed < count and not self.closed:
            self._keep(view[consumed:count])
        if self._out:
            self.flush()
        server.end_turn()

    def _process(self, view: memoryview, position: int, end: int) -> int:
        """Dispatch the complete frames of `view[position:end]`; the position after them."""
        server = self._server
        dispatch = server.dispatch
        size_max = server.request_bytes_max
        self._processing = True
        while end - position >= 4:
            (size,) = _length(view, position)
            if size < FRAME_BYTES_MIN or size > size_max:
                server.refuse_size(self, size)
                break
            start = position + 4
            stop = start + size
            if stop > end:
                break
            if self._overlap and (view[start] or view[start + 1]):
                break  # only Produce (key 0) may follow a deferred Produce
            position = stop
            dispatch(self, view[start:stop])
            if self._blocked or self.closed:
                break
            if self._out_bytes > OUTPUT_BYTES_MAX:
                self.flush()
                if self._writing or self.closed:
                    break
        self._processing = False
        return position

    def _keep(self, rest: memoryview) -> None:
        """Keep bytes that could not be processed: an incomplete frame, or frames that must wait."""
        if self._blocked or self._writing or (self._overlap and self._must_wait(rest)):
            self._backlog = bytearray(rest)
            return
        if len(rest) < 4:
            self._partial = bytearray(PARTIAL_BYTES_MIN)
            self._partial_size = 4
        else:
            self._partial_size = 4 + _length(rest, 0)[0]
            capacity = max(len(rest), min(self._partial_size, PARTIAL_BYTES_MIN))
            self._partial = bytearray(capacity)
        self._partial_filled = len(rest)
        self._partial[: len(rest)] = rest

    @staticmethod
    def _must_wait(rest: memoryview) -> bool:
        """Whether a frame begins here that may not follow a deferred Produce."""
        return len(rest) >= 6 and (rest[4] or rest[5]) != 0

    def _read_partial(self) -> None:
        """Go on with an incomplete frame, reading no further than its end."""
        server = self._server
        partial = self._partial
        assert partial is not None
        filled, size = self._partial_filled, self._partial_size
        if filled == len(partial) < size:
            partial.extend(bytes(min(size, 2 * len(partial)) - len(partial)))
        view = memoryview(partial)
        count = self._socket.recv_into(view[filled:size])
        if not count:
            self.close()
            return
        server.bytes_in += count
        self.active = True
        self._partial_filled = filled = filled + count
        if size == 4 and filled == 4:
            (length,) = _length(partial, 0)
            if length < FRAME_BYTES_MIN or length > server.request_bytes_max:
                server.refuse_size(self, length)
                return
            self._partial_size = size = 4 + length
        if filled < size:
            return
        self._partial = None
        consumed = self._process(view, 0, size)
        if consumed < size and not self.closed:
            self._backlog = bytearray(view[:size])
        if self._out:
            self.flush()
        server.end_turn()

    def _read_ahead(self) -> None:
        """Bytes arrived while the connection may not be served: keep a few, notice its end."""
        backlog = self._backlog
        if backlog is None:
            backlog = self._backlog = bytearray()
        room = BACKLOG_BYTES_MAX - len(backlog)
        if room <= 0:
            self._set_reading(False)
            return
        try:
            data = self._socket.recv(room)
        except _WOULD_BLOCK:
            return
        except OSError:
            self.close()
            return
        if not data:
            self.close()
            return
        self._server.bytes_in += len(data)
        self.active = True
        backlog += data

    def _resume(self) -> None:
        """Serve what was kept back, then read again."""
        while (kept := self._take_backlog()) is not None:
            view = memoryview(kept)
            consumed = self._process(view, 0, len(kept))
            if consumed < len(kept) and not self.closed:
                self._keep(view[consumed:])
            if self._out:
                self.flush()
            if self._overlap:
                break  # what is left waits for the deferred Produce
        if self._backlog is None and not self.closed:
            self._set_reading(True)

    def _take_backlog(self) -> bytearray | None:
        """The bytes that were kept back, if they may be processed now."""
        kept = self._backlog
        if kept is None or self._blocked or self._writing or self.closed:
            return None
        self._backlog = None
        if self._partial is not None:
            kept = self._partial[: self._partial_filled] + kept
            self._partial = None
        return kept

    def _set_reading(self, reading: bool) -> None:
        if reading == self._reading:
            return
        self._reading = reading
        if reading:
            self._loop.add_reader(self._descriptor, self.on_readable)
        else:
            self._loop.remove_reader(self._descriptor)

    # -- output -----------------------------------------------------------------------------

    def respond(self, parts: list[Part], length: int) -> None:
        """The answer to the frame being dispatched: `length` bytes in `parts`."""
        if self._slots:
            slot = Slot(self)
            slot.parts = parts
            self._slots.append(slot)
            return
        self._out.extend(parts)
        self._out_bytes += length

    def defer(self, overlap: bool = False) -> Slot:
        """A place for the answer to the frame being dispatched, to be completed later.

        With `overlap` further Produce requests may be processed meanwhile.
        """
        slot = Slot(self)
        if self._slots is None:
            self._slots = deque()
        self._slots.append(slot)
        if overlap:
            self._overlap = True
        else:
            self._blocked = True
        return slot

    def on_slot_completed(self) -> None:
        """Send the answers whose turn has come."""
        slots = self._slots
        if self.closed or slots is None:
            return
        while slots and slots[0].parts is not None:
            parts = slots.popleft().parts
            assert parts is not None
            self._out.extend(parts)
        if not slots:
            self._slots = None
            self._overlap = False
            self._blocked = self._muted_until is not None
        if self._processing:
            return
        if self._out:
            self.flush()
        if not self._blocked and not self.closed:
            self._resume()

    def mute(self, delay_ms: int) -> None:
        """Process nothing more from this client for a while (KIP-219)."""
        self._blocked = True
        if self._muted_until is not None:
            self._muted_until.cancel()
        self._muted_until = self._loop.call_later(delay_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted_until = None
        self._blocked = bool(self._slots) and not self._overlap
        if not self._blocked and not self.closed:
            self._resume()

    def flush(self) -> None:
        """Send what can be sent now; the rest when the socket takes it."""
        if self._writing or self.closed:
            return
        try:
            done = self._send_parts()
        except OSError:
            self.close()
            return
        if not done:
            self._writing = True
            self._loop.add_writer(self._descriptor, self._on_writable)

    def _on_writable(self) -> None:
        self.active = True
        try:
            if not self._send_parts():
                return
        except OSError:
            self.close()
            return
        self._writing = False
        self._loop.remove_writer(self._descriptor)
        if not self._blocked:
            self._resume()
        self._server.end_turn()

    def _send_parts(self) -> bool:
        """Whether everything went out."""
        parts = self._out
        at = 0
        count = len(parts)
        allowed = BUFFERED_BYTES_PER_TURN
        try:
            while at < count:
                part = parts[at]
                if isinstance(part, FileRange):
                    if isinstance(part, BufferedRange):
                        length = part.length
                        if not self._send_buffered(part, allowed):
                            return False
                        allowed -= length
                    elif not self._send_file(part):
                        return False
                    at += 1
                    continue
                stop = at + 1
                while stop < count and not isinstance(parts[stop], FileRange):
                    stop += 1
                unsent = self._send_bytes(parts[at:stop], stop < count)
                if unsent is not None:
                    parts[at:stop] = [unsent]
                    return False
                at = stop
        finally:
            del parts[:at]
        self._out_bytes = 0
        return True

    def _send_bytes(self, parts: list[Part], more: bool) -> memoryview | None:
        """Send a run of bytes; what the socket did not take."""
        data: bytes | bytearray | memoryview
        data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[assignment, arg-type]
        try:
            sent = self._socket.send(data, socket.MSG_MORE if more else 0)
        except _WOULD_BLOCK:
            sent = 0
        self._server.bytes_out += sent
        if sent == len(data):
            return None
        return memoryview(data)[sent:]

    def _send_file(self, part: FileRange) -> bool:
        """Send a file range; whether all of it went out."""
        while part.length:
            try:
                sent = os.sendfile(self._descriptor, part.descriptor, part.position, part.length)
            except _WOULD_BLOCK:
                return False
            if sent == 0:
                raise OSError("file ends before the range that was promised")
            self._advance(part, sent)
        return True

    def _send_buffered(self, part: BufferedRange, allowed: int) -> bool:
        """Send so many bytes of it at most; whether all of it went out."""
        end = part.position + min(part.length, allowed)
        while part.position < end:
            try:
                sent = self._socket.send(part.memory[part.position : end])
            except _WOULD_BLOCK:
                return False
            self._advance(part, sent)
        return not part.length

    def _advance(self, part: FileRange, sent: int) -> None:
        part.position += sent
        part.length -= sent
        self._server.bytes_out += sent

    # -- the end ----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing is being received, processed or sent."""
        return not (self._out or self._slots or self._partial or self._backlog)

    def refuse(self) -> None:
        """Send the answers that are ready, as far as the socket takes them, and close."""
        self.flush()
        self.close()

    def close(self) -> None:
        """Close the socket and drop what was not sent."""
        if self.closed:
            return
        self.closed = True
        self.peer.close = nothing
        if self._muted_until is not None:
            self._muted_until.cancel()
        if self._reading:
            self._loop.remove_reader(self._descriptor)
        if self._writing:
            self._loop.remove_writer(self._descriptor)
        self._out.clear()
        self._slots = None
        self._partial = self._backlog = None
        self._socket.close()
        self._server.forget(self)
