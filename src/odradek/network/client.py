"""A client of another node: connects, sends requests, and receives responses in order.

The state machine `ClientMachine` decides when to connect, send and retry. This module connects,
sends and receives with `env.Network` on the event loop. Requests and responses are bytes, which the
caller encodes and decodes. The caller gets a response as a view of the receive buffer, so that
fetched records are not copied before they are appended to the log.

`handshake` runs on every new connection before the first request, for example for ApiVersions. It is
a generator that yields requests and gets their responses. A `SessionNetwork` authenticates the
connections; their sessions are renewed when the machine says so.

`odradek.broker.raft.peers` sends the requests of the metadata quorum with it.
`odradek.broker.replication.fetchers` fetches the partitions that other brokers lead with it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Generator
from functools import partial

from odradek.env.network import (
    DEFAULT_OPTIONS,
    Buffer,
    Network,
    StreamOptions,
    Transport,
)
from odradek.env.randomness import RandomBytes
from odradek.network.client_machine import (
    ClientMachine,
    ClientSettings,
    Connect,
    Disconnect,
    Effect,
    Fail,
    Renew,
    Request,
    RequestError,
    Send,
    State,
)
from odradek.network.input import LENGTH_BYTES, Input
from odradek.network.output import Output
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.sessions import PlainRequest, Session, SessionNetwork

log = logging.getLogger("odradek.network")

RESPONSE_BYTES_MAX = 2**31 - 1 - LENGTH_BYTES
_HANDSHAKE_CORRELATION_ID = 0

_length = struct.Struct(">i").unpack_from
_correlation = struct.Struct(">i").unpack_from
_head = struct.Struct(">ihhi").pack

Handshake = Callable[[], Generator[PlainRequest, bytes, None]]
OnDone = Callable[[memoryview | None, RequestError | None], None]


FAILING_SECONDS_MAX = 10.0
"""If no connection can be made for longer, a warning is logged."""


class HandshakeError(Exception):
    """The handshake failed, so that the connection cannot be used."""


class NodeClient:
    """A client of one other node. Use it only on the event loop's thread."""

    def __init__(
        self,
        network: Network,
        host: str,
        port: int,
        random_bytes: RandomBytes,
        settings: ClientSettings | None = None,
        *,
        handshake: Handshake | None = None,
        options: StreamOptions = DEFAULT_OPTIONS,
        buffers: ReceiveBuffers | None = None,
    ) -> None:
        """The clients and servers of one event loop may share `buffers`."""
        self._network = network
        self._host = host
        self._port = port
        self._handshake = handshake
        self._options = options
        self._buffers = buffers or ReceiveBuffers()
        self._machine = ClientMachine(settings or ClientSettings(), random_bytes)
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        """The task that connects, or that renews the session."""
        self._failing_since: float | None = None
        """When the first of the attempts to connect failed; None after a success."""
        self._is_warned = False
        self._link: _Link | None = None
        self._session: Session | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, so that requests are sent immediately."""
        return self._machine.state is State.OPEN

    def send(
        self, api_key: int, api_version: int, parts: list[Buffer], timeout_ms: int, on_done: OnDone
    ) -> None:
        """Send a request; `parts` are the bytes after the correlation id.

        `on_done` is called once, after this method has returned. Its arguments are the bytes after
        the response's correlation id and None, or None and an error. The bytes are valid until
        `on_done` returns.
        """
        now_ms = self._now_ms()
        request = Request(api_key, api_version, parts, now_ms + timeout_ms, on_done)
        self._perform(self._machine.submit(now_ms, request))

    def call(
        self, api_key: int, api_version: int, parts: list[Buffer], timeout_ms: int
    ) -> asyncio.Future[bytes]:
        """Send a request as `send` does; return a future of a copy of the response."""
        future: asyncio.Future[bytes] = self._loop.create_future()

        def on_done(response: memoryview | None, error: RequestError | None) -> None:
            if future.done():  # the caller has cancelled it
                return
            if error is not None:
                future.set_exception(error)
            else:
                assert response is not None
                future.set_result(bytes(response))

        self.send(api_key, api_version, parts, timeout_ms, on_done)
        return future

    def close(self) -> None:
        """Close the connection; all requests fail."""
        self._perform(self._machine.close())

    # -- effects ----------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(request, correlation_id):
                    assert self._link is not None
                    self._link.queue(
                        request.api_key, request.api_version, correlation_id, request.parts
                    )
                case Connect(timeout_ms):
                    self._start(partial(self._connect, timeout_ms), timeout_ms)
                case Renew(timeout_ms):
                    self._start(self._renew, timeout_ms)
                case Disconnect():
                    self._drop()
                case Fail(request, error):
                    self._loop.call_soon(request.on_done, None, error)
        if self._link is not None:
            self._link.flush()
        self._set_timer()

    def _set_timer(self) -> None:
        deadline_ms = self._machine.next_deadline_ms()
        if deadline_ms is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return  # the timer checks the deadline again when it fires
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._perform(self._machine.tick(self._now_ms()))

    # -- the connection ---------------------------------------------------------------------

    def _start(self, attempt: Callable[[], Awaitable[None]], timeout_ms: int) -> None:
        self._connecting = self._loop.create_task(self._run(attempt, timeout_ms))

    async def _run(self, attempt: Callable[[], Awaitable[None]], timeout_ms: int) -> None:
        """Connect or renew the session, and report the result to the machine."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await attempt()
        except (OSError, HandshakeError) as error:
            self._log_failure(error)
            self._connecting = None
            self.on_lost(_reason(error))
        except Exception as error:  # for example, a host name that cannot be encoded
            log.exception("no connection to %s:%d", self._host, self._port)
            self._connecting = None
            self.on_lost(repr(error))
        else:
            self._connecting = None
            self._failing_since = None
            session = self._session
            renew_at_ms = None if session is None else session.renew_at_ms
            self._perform(self._machine.opened(renew_at_ms))

    def _log_failure(self, error: Exception) -> None:
        """Warn once if no connection could be made for some time, whatever the reasons were."""
        now = self._loop.time()
        level = logging.DEBUG
        if self._failing_since is None:
            self._failing_since, self._is_warned = now, False
        elif not self._is_warned and now - self._failing_since >= FAILING_SECONDS_MAX:
            self._is_warned, level = True, logging.WARNING
        log.log(level, "no connection to %s:%d: %s", self._host, self._port, error)

    async def _connect(self, timeout_ms: int) -> None:
        network, options = self._network, self._options
        if isinstance(network, SessionNetwork):
            transport, self._session = await network.connect_session(
                self._host, self._port, timeout_ms, options
            )
        else:
            transport = await network.connect(self._host, self._port, timeout_ms, options)
        link = self._link = _Link(transport, self, self._buffers)
        if self._handshake is not None:
            await self._shake_hands(link, self._handshake())
            link.check()

    async def _renew(self) -> None:
        link, session = self._link, self._session
        assert link is not None
        assert session is not None
        self._session = await session.renew(partial(self._ask, link))
        link.check()

    async def _ask(self, link: _Link, request: PlainRequest) -> bytes:
        response = link.expect_handshake()
        api_key, api_version, parts = request
        link.queue(api_key, api_version, _HANDSHAKE_CORRELATION_ID, parts)
        link.flush()
        return await response

    async def _shake_hands(
        self, link: _Link, handshake: Generator[PlainRequest, bytes, None]
    ) -> None:
        try:
            request = next(handshake)
            while True:
                request = handshake.send(await self._ask(link, request))
        except StopIteration:
            return
        finally:
            handshake.close()

    def _drop(self) -> None:
        """Close the connection, or stop connecting."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def on_lost(self, reason: str) -> None:
        """Close the connection, which has ended or cannot be used, and report the loss."""
        if self._connecting is not None and self._link is not None:
            self._link.fail_handshake(reason)  # then `_connect` reports the loss
            return
        self._drop()
        self._perform(self._machine.lost(self._now_ms(), reason))

    def on_response(self, correlation_id: int, response: memoryview) -> bool:
        """Process a response; return whether the connection can still be used."""
        request = self._machine.responded(correlation_id)
        if request is None:
            self.on_lost("a response came that no request waits for")
            return False
        try:
            request.on_done(response, None)
        except Exception:  # an error in one callback must not affect the other requests
            log.exception("the response to a request of API %d was not handled", request.api_key)
        return self.is_open

    def on_responses(self) -> None:
        """Send further requests, because responses have arrived."""
        self._perform(self._machine.tick(self._now_ms()))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return str(error) or "the connection could not be made in time"
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class _Link:
    """Sends and receives the frames of a client on one transport."""

    def __init__(self, transport: Transport, client: NodeClient, buffers: ReceiveBuffers) -> None:
        self._transport = transport
        self._client = client
        self._buffers = buffers
        self._receive = transport.recv_into
        self._input = Input(buffers, self._receive)
        self._output = Output(transport)
        self._is_writing = False
        self._is_closed = False
        self._is_handing_over = False
        """Whether `_hand_over` is running: a callback may still use the view of a response."""
        self._handshake: asyncio.Future[bytes] | None = None
        transport.watch_readable(self._on_readable)

    def expect_handshake(self) -> asyncio.Future[bytes]:
        """Return a future of the next response, which belongs to the handshake or to the renewal.

        Raises:
            HandshakeError: the connection has ended.
        """
        self.check()
        self._handshake = asyncio.get_running_loop().create_future()
        return self._handshake

    def check(self) -> None:
        """Raise HandshakeError if the connection has ended."""
        if self._is_closed:
            raise HandshakeError("the connection ended while it was being authenticated")

    def fail_handshake(self, reason: str) -> None:
        """Close the connection, and fail the handshake that is running."""
        self.close()
        if self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(HandshakeError(reason))

    def queue(
        self, api_key: int, api_version: int, correlation_id: int, parts: list[Buffer]
    ) -> None:
        """Queue a request."""
        length = sum(map(len, parts)) + 8
        head = _head(length, api_key, api_version, correlation_id)
        self._output.queue([head, *parts], length + LENGTH_BYTES)

    def flush(self) -> None:
        """Send what the transport accepts now. Send the rest when the transport is writable."""
        if self._is_writing or self._is_closed or not self._output.parts:
            return
        try:
            done = self._output.send()
        except OSError as error:
            self._client.on_lost(str(error))
            return
        if not done:
            self._is_writing = True
            self._transport.watch_writable(self._on_writable)

    def _on_writable(self) -> None:
        self._is_writing = False
        self._transport.unwatch_writable()
        self.flush()

    def _on_readable(self) -> None:
        held = self._input
        try:
            if held.memory is None:
                view, start = self._buffers.shared, 0
                end = received = self._receive(view)
            else:
                view, start, end, received = held.receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._client.on_lost(str(error))
            return
        if not received:
            self._client.on_lost("the other end closed the connection")
            return
        if end < held.stop and view is held.memory:
            return  # the response is still incomplete
        self._is_handing_over = True
        start = self._hand_over(view, start, end)
        self._is_handing_over = False
        if self._is_closed or start == end:
            held.clear()
        else:
            held.keep(view, start, end)
        if not self._is_closed and self._handshake is None:
            self._client.on_responses()

    def _hand_over(self, view: memoryview, start: int, end: int) -> int:
        """Pass the complete responses to their callers; return the position after them."""
        while end - start >= LENGTH_BYTES:
            (size,) = _length(view, start)
            if not LENGTH_BYTES <= size <= RESPONSE_BYTES_MAX:
                self._client.on_lost(f"a response of {size} bytes was announced")
                break
            first = start + LENGTH_BYTES
            stop = first + size
            if stop > end:
                break
            start = stop
            (correlation_id,) = _correlation(view, first)
            response = view[first + LENGTH_BYTES : stop]
            waiting = self._handshake
            if waiting is not None and not waiting.done():
                waiting.set_result(bytes(response))
                self._handshake = None
            elif not self._client.on_response(correlation_id, response):
                break
            if self._is_closed:
                break
        return start

    def close(self) -> None:
        """Close the transport."""
        if not self._is_closed:
            self._is_closed = True
            self._transport.close()
            self._output.clear()
            if not self._is_handing_over:
                self._input.clear()
