"""One client's connection: receives requests and sends responses in order, with limited memory.

A frame is four bytes with a length, and one request of this length. `on_readable` receives bytes
into a buffer that all connections of the server share, splits them into frames, and passes each
frame to the dispatcher. The dispatcher gets the request as a memoryview, which is valid until the
dispatcher returns. The dispatcher responds immediately (`respond`) or later (`defer`, then
`Slot.complete`).

A connection has three parts:

- `Input` holds the bytes that were received and are not processed yet.
- `ResponseOrder` holds the responses that must wait for an earlier response.
- `Output` holds the bytes that are not sent yet.

The connection decides when it processes frames. It processes no frame while a response is deferred,
while the transport accepts no output, while the client is muted, while a handler has called `pause`,
or while the connection waits for its next turn (`turns.py`). (`responses.py` describes an
exception for Produce requests.) During this time the connection reads only a small number of bytes
and then stops reading, so that TCP flow control slows the client down.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, Protocol

from odradek.env.network import Transport
from odradek.network.input import LENGTH_BYTES, Input
from odradek.network.output import Output
from odradek.network.peer import Peer
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.responses import ResponseOrder, Slot
from odradek.network.turns import Turns
from odradek.telemetry.request_metrics import RequestMetrics

OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""The responses to pipelined requests are collected up to this size, and then sent."""
FRAME_BYTES_MIN: Final = 8
"""Size of the shortest request: the fixed part of request header version 0."""
PROGRESS_BYTES: Final = 64 * 1024
"""A client is active if it completes a request, or if it sends this many bytes between two checks for
idle connections. Otherwise a client could keep a part of a request in memory for ever, with a byte
now and then."""

_length: Final = struct.Struct(">i").unpack_from


class Owner(Protocol):
    """The interface of the server to its connections.

    `Server` implements it. A connection that must authenticate first has an owner of its own, which
    passes requests on to the server (`odradek.handlers.sasl_gate`).
    """

    @property
    def request_bytes_max(self) -> int:
        """The connection is closed if the client announces a longer request."""
        ...

    @property
    def dispatch(self) -> Callable[[Connection, memoryview], None]:
        """The function that processes one request."""
        ...

    @property
    def buffers(self) -> ReceiveBuffers:
        """The buffers that the server's connections share."""
        ...

    @property
    def turns(self) -> Turns:
        """The connections of the server that wait for their next turn."""
        ...

    @property
    def knows_client(self) -> bool:
        """Whether the client is authenticated, if the listener requires it."""
        ...

    def refuse_size(self, connection: Connection, size: int) -> None:
        """Close a connection whose client announced a request of an invalid size."""
        ...

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has closed itself."""
        ...


class Connection:
    """The connection of one client. Use it only on the event loop's thread."""

    __slots__ = (
        "_blocked_at",
        "_blocked_by",
        "_bytes_at_sweep",
        "_input",
        "_is_muted",
        "_is_processing",
        "_is_reading",
        "_is_stopped",
        "_is_stranger",
        "_is_waiting",
        "_is_writing",
        "_loop",
        "_metrics",
        "_muted_until",
        "_order",
        "_output",
        "_owner",
        "_pauses",
        "_receive",
        "_shared",
        "_sweeps",
        "_transport",
        "_unmute_timer",
        "bytes_in",
        "closed",
        "held_since",
        "peer",
        "respond",
    )

    def __init__(
        self, transport: Transport, listener: str, owner: Owner, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport = transport
        self._receive = transport.recv_into
        self._owner = owner
        self._shared = owner.buffers.shared
        self._loop = loop
        self.peer = Peer(*transport.peer_address, listener, *transport.local_address, self)
        self.closed = False
        self.bytes_in = 0
        """Bytes received."""
        self._sweeps = 0
        """Number of the server's checks for idle connections since this connection was active."""
        self._bytes_at_sweep = 0
        """`bytes_in` at the last check."""
        self._input: Input | None = None
        """None until bytes must be held for the first time. Most connections never hold bytes."""
        self._order = ResponseOrder()
        self._output = Output(transport, self._order)
        self.respond = self._output.respond
        """Add the response to the current request: its parts, and their total length in bytes."""
        self._is_processing = False
        """Whether `_process` is running. The dispatcher may call back into this connection."""
        self._is_stopped = False
        """Whether no frame may be processed now."""
        self._is_writing = False
        """Whether unsent output waits until the transport is writable."""
        self.held_since = 0.0
        """When the frames that are processed now began to wait for their turn; 0 if they did not."""
        self._metrics: RequestMetrics | None = None
        """The counters of the newest request's API."""
        self._blocked_by: RequestMetrics | None = None
        self._blocked_at = 0.0
        """While the transport accepts no output: the counters of the newest response, and since when."""
        self._is_waiting = False
        """Whether the connection waits for its next turn, because the client has sent many requests."""
        self._pauses = 0
        """How many handlers have called `pause`, because they process a request in several steps."""
        self._is_muted = False
        self._muted_until = 0.0
        self._unmute_timer: asyncio.TimerHandle | None = None
        self._is_reading = True
        self._is_stranger = True
        """Whether the client has not completed a request since it is known."""
        transport.watch_readable(self.on_readable)

    def pass_to(self, owner: Owner) -> None:
        """Let another owner process the following requests. It shares the buffers and the turns."""
        self._owner = owner

    # -- input ------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Receive and process bytes; close the connection at the end of the stream."""
        held = self._input
        try:
            if self._is_stopped:
                self._read_ahead()
                return
            if held is None or held.memory is None:
                view, start = self._shared, 0
                end = received = self._receive(view)
                held = None
            else:
                view, start, end, received = held.receive()
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not received:
            self.close()
            return
        self.bytes_in += received
        if held is not None and end < held.stop and view is held.memory:
            return  # the frame is still incomplete
        self._process(view, start, end)
        if self._output.parts:
            self.flush()

    def _process(self, view: memoryview, position: int, end: int) -> None:
        """Dispatch the complete frames of `view[position:end]`, and hold the rest."""
        owner = self._owner
        dispatch = owner.dispatch
        size_max = owner.request_bytes_max
        turns = owner.turns
        frames = turns.frames
        deadline = 0.0
        begin = position
        self._is_processing = True
        while end - position >= LENGTH_BYTES:
            (size,) = _length(view, position)
            if size < FRAME_BYTES_MIN or size > size_max:
                owner.refuse_size(self, size)
                break
            start = position + LENGTH_BYTES
            stop = start + size
            if stop > end:
                break
            if self._order.overlaps and (view[start] or view[start + 1]):
                self._is_stopped = True  # only Produce (key 0) may follow a deferred Produce
                break
            position = stop
            self._sweeps = 0
            dispatch(self, view[start:stop])
            if self._is_stopped:
                break
            frames -= 1
            if position < end:
                now = turns.now()
                deadline = deadline or now + turns.seconds
                if not frames or now > deadline:
                    self._wait_for_turn()
                    break
            if self._output.queued_bytes > OUTPUT_BYTES_MAX:
                self.flush()
                if self._is_writing or self.closed:
                    break
        self._is_processing = False
        if self._is_stranger and position != begin and owner.knows_client:
            self._is_stranger = False
            self._transport.prefer()
        if position == end or self.closed:
            self.held_since = 0.0
            held = self._input
            if held is not None and held.memory is not None:
                held.clear()
        else:
            self._holder().keep(view, position, end)

    def _holder(self) -> Input:
        if self._input is None:
            self._input = Input(self._owner.buffers, self._receive)
        return self._input

    def _read_ahead(self) -> None:
        """Read a small number of bytes while no frame may be processed.

        Otherwise the end of the stream would not be noticed. Stop reading when enough bytes are
        held.
        """
        received = self._holder().read_ahead()
        if received is None:
            self._is_reading = False
            self._transport.unwatch_readable()
        elif received == 0:
            self.close()
        else:
            self.bytes_in += received

    def _wait_for_turn(self) -> None:
        """Process the other requests that have been received later.

        Nothing is read meanwhile: the end of the stream must not be noticed before these requests are
        processed, because a client that needs no responses may close the connection at once.
        """
        self._is_stopped = self._is_waiting = True
        if not self.held_since:
            self.held_since = self._owner.turns.now()
        if self._is_reading:
            self._is_reading = False
            self._transport.unwatch_readable()
        self._owner.turns.wait(self.peer.host, self._take_turn)

    def _take_turn(self) -> None:
        self._is_waiting = False
        self._continue()

    def _continue(self) -> None:
        """If frames may be processed again, process the held bytes and continue to read."""
        if (
            self.closed
            or self._is_muted
            or self._pauses
            or self._is_writing
            or self._is_waiting
            or self._order.blocks
        ):
            return
        self._is_stopped = False
        held = self._input
        if held is not None and held.memory is not None:
            self._process(held.memory, held.start, held.end)
            if self._output.parts:
                self.flush()
        if not (self._is_stopped or self._is_reading):
            self._is_reading = True
            self._transport.watch_readable(self.on_readable)

    def count_in(self, metrics: RequestMetrics) -> None:
        """Note the counters of the request that is being dispatched."""
        self._metrics = metrics
        if self.held_since:
            waited = self._owner.turns.now() - self.held_since
            metrics.record_queued(int(waited * 1_000_000))

    def count_errors(self, codes: list[int]) -> None:
        """Count the errors of the response to the newest request."""
        if self._metrics is not None:
            self._metrics.record_errors(codes)

    # -- output -----------------------------------------------------------------------------

    def defer(self, overlap: bool = False) -> Slot:
        """Return a slot for the response to the current request. Complete the slot later.

        With `overlap`, further Produce requests may be processed before the slot is completed.
        """
        if not overlap:
            self._is_stopped = True
        return self._order.open(overlap, self._on_slot_completed)

    def _on_slot_completed(self) -> None:
        """Send the responses that need not wait for an earlier response."""
        if self.closed:
            return
        self._output.queue_ready()
        if self._is_processing:
            # The slot was completed before the dispatcher returned.
            self._is_stopped = (
                self._order.blocks
                or self._is_muted
                or self._pauses > 0
                or self._is_writing
                or self._is_waiting
            )
            return
        if self._output.parts:
            self.flush()
        if self._is_stopped:
            self._continue()

    def flush(self) -> None:
        """Send what the transport accepts now. Send the rest when the transport is writable."""
        if self._is_writing or self.closed:
            return
        try:
            done = self._output.send()
        except OSError:
            self.close()
            return
        if not done:
            self._is_writing = self._is_stopped = True
            self._blocked_by, self._blocked_at = self._metrics, self._loop.time()
            self._transport.watch_writable(self._on_writable)

    def _on_writable(self) -> None:
        self._sweeps = 0
        try:
            if not self._output.send():
                return
        except OSError:
            self.close()
            return
        self._is_writing = False
        if self._blocked_by is not None:
            blocked = self._loop.time() - self._blocked_at
            self._blocked_by.record_sent_late(int(blocked * 1_000_000))
        self._transport.unwatch_writable()
        self._continue()

    @property
    def is_blocked(self) -> bool:
        """Whether responses wait until the transport accepts them."""
        return self._is_writing

    @property
    def bytes_out(self) -> int:
        """Bytes sent."""
        return self._output.bytes_out

    def pause(self) -> None:
        """Process no further request until `resume` is called. Responses are still sent."""
        self._pauses += 1
        self._is_stopped = True

    def resume(self) -> None:
        """Undo `pause`. Call it from the event loop, not while a request is dispatched."""
        self._pauses -= 1
        self._continue()

    # -- throttling -------------------------------------------------------------------------

    def mute(self, delay_ms: int) -> None:
        """Stop processing this client's requests for `delay_ms` (KIP-219).

        Responses are still sent, for example the response with the throttle time. If the client is
        muted several times, the delay that ends last applies.
        """
        until = self._loop.time() + delay_ms / 1000
        if self.closed or delay_ms <= 0 or (self._is_muted and until <= self._muted_until):
            return
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
        self._is_muted = self._is_stopped = True
        self._muted_until = until
        self._unmute_timer = self._loop.call_at(until, self._unmute)

    def _unmute(self) -> None:
        self._is_muted = False
        self._unmute_timer = None
        self._continue()

    # -- the end ----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being received, processed or sent.

        Requests of a muted client are not being processed.
        """
        if self._output.parts or self._order.slots:
            return False
        return self._is_muted or self._input is None or self._input.memory is None

    def count_sweep(self) -> int:
        """Count a check for idle connections; return the number of checks since the last activity.

        A client that waits for a response or is muted is not idle. A client that does not read its
        response is idle, and so is a client that sends a request very slowly.
        """
        received = self.bytes_in - self._bytes_at_sweep
        self._bytes_at_sweep = self.bytes_in
        if self._order.slots or self._is_muted or received >= PROGRESS_BYTES:
            self._sweeps = 0
        else:
            self._sweeps += 1
        return self._sweeps

    @property
    def sweeps(self) -> int:
        """The number of checks for idle connections since the last activity."""
        return self._sweeps

    def refuse(self) -> None:
        """Send the ready responses as far as the transport accepts them, then close."""
        self.flush()
        self.close()

    def close(self) -> None:
        """Close the transport and drop all unsent responses."""
        if self.closed:
            return
        self.closed = self._is_stopped = True
        self.peer.on_closed()
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
        self._transport.close()
        self._output.clear()
        self._order.clear()
        if self._input is not None and not self._is_processing:
            self._input.clear()
        self._owner.forget(self)
