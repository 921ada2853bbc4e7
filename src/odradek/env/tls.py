"""TLS on accepted connections and on connections to other nodes, with Python's `ssl`.

`TlsTransport` is a `Transport` (see `odradek.env.network`) with encrypted bytes. The handshake of
an accepted connection begins when the client has sent its first bytes. `connect_tls` returns the
transport of a connection to another node after the handshake. Each step of a handshake runs in a
thread, because it computes for up to some milliseconds with the private key; `ssl` releases the
interpreter's lock in this time. A step never waits for the network: if it needs more bytes, the
event loop waits for them. OpenSSL's object is created before the first step, so a connection that sends
nothing costs little more than without TLS.

The bytes after the handshake pass through a `TlsStream`. If a part of a TLS record stays in OpenSSL's
memory, the kernel does not report the socket as readable. Then the transport itself calls the callback
in each iteration until the caller has received everything.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

from odradek.env import event_loop
from odradek.env.file_range import FileRange
from odradek.env.tls_files import TlsError
from odradek.env.tls_stream import CALL_BYTES_MAX, READ_BYTES_MAX, TlsStream

HANDSHAKE_THREADS = 2
PROTOCOL_VERSION_ALERT = bytes.fromhex("15 0303 0002 02 46")
"""A record of TLS 1.2 with the fatal alert protocol_version."""
_HANDSHAKE_RECORD = b"\x16"
"""The first byte that a TLS client sends: the type of a handshake record."""
_NO_TLS_REASONS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL")
"""OpenSSL's errors about bytes that are not TLS. It sends no alert for them."""


def _no_tls_error() -> ssl.SSLError:
    error = ssl.SSLError(ssl.SSL_ERROR_SSL, "the bytes are not TLS")
    error.reason = "UNKNOWN_PROTOCOL"
    return error


class _FileBuffer(threading.local):
    """The memory into which `send_file` reads, one for each thread with an event loop."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES_MAX))


_file_buffer = _FileBuffer()


class _State(Enum):
    HANDSHAKE = "handshake"
    OPEN = "open"
    FAILED = "failed"


class TlsTransport:
    """A `Transport` over TLS. It may be returned before the handshake is complete."""

    __slots__ = (
        "__weakref__",
        "_connected",
        "_context",
        "_descriptor",
        "_error",
        "_handshakes",
        "_is_closed",
        "_is_deferred",
        "_is_pending_scheduled",
        "_is_stepping",
        "_loop",
        "_on_readable",
        "_on_writable",
        "_opened",
        "_refusal",
        "_server_name",
        "_socket",
        "_state",
        "_stream",
        "local_address",
        "peer_address",
    )

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        handshakes: ThreadPoolExecutor | None,
        loop: asyncio.AbstractEventLoop,
        local_address: Any,
        peer_address: Any,
        server_name: str | None = None,
    ) -> None:
        """`connected` is a non-blocking socket. The steps of the handshake run in `handshakes`, or
        in the loop's own threads.

        `server_name` is the server's host if this is the client's end, which begins the handshake.

        Raises:
            OSError: the peer has disconnected.
        """
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._context = context
        self._server_name = server_name
        self._connected: socket.socket | None = connected
        """The socket until the first step of the handshake. Then it is in `_socket`."""
        self._socket: ssl.SSLSocket
        self._stream: TlsStream
        self._descriptor = connected.fileno()
        self._handshakes = handshakes
        self._loop = loop
        self.local_address = local_address
        self.peer_address = peer_address
        self._state = _State.HANDSHAKE
        self._error: OSError | None = None
        """Why the handshake failed. None after the end, because the traceback of an error that was
        raised refers to this object."""
        self._refusal: str | None = None
        self._on_readable: Callable[[], object] | None = None
        self._on_writable: Callable[[], object] | None = None
        self._is_stepping = False
        """Whether a thread uses the socket."""
        self._is_pending_scheduled = False
        self._is_closed = False
        self._is_deferred = False
        self._opened: asyncio.Future[None] | None = None
        """Done when the handshake is complete or has failed; None if nobody waits for it."""
        if server_name is None:
            self._is_deferred = event_loop.defer(loop, self._descriptor, peer_address.host)
            loop.add_reader(self._descriptor, self._step_on_bytes)
        else:
            self._step()

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The client's certificate, which was verified; None if it has none."""
        if self._state is not _State.OPEN:
            return None
        return self._socket.getpeercert() or None

    @property
    def handshake_refusal(self) -> str | None:
        """Why this end or the other one refused the handshake; None if it did not. The end of the
        connection is no refusal."""
        return self._refusal

    # -- the handshake --------------------------------------------------------------------------

    async def opened(self) -> None:
        """Wait until the handshake is complete.

        Raises:
            OSError: it has failed.
        """
        if self._state is _State.HANDSHAKE:
            self._opened = self._loop.create_future()
            await self._opened
        self._check_open()

    def _step_on_bytes(self) -> None:
        """Run a step of the handshake if bytes have arrived. If the peer has left, it has failed.

        It has also failed if the first byte is not that of a TLS handshake. This excludes the
        ClientHello of SSL 2, as in Java with Apache Kafka's default protocols. In both cases no thread
        is needed, so thousands of such connections cost little.
        """
        problem: OSError = ConnectionResetError("the connection was closed during the handshake")
        try:
            first = socket.socket.recv(self._connected or self._socket, 1, socket.MSG_PEEK)
            if first and (self._connected is None or first == _HANDSHAKE_RECORD):
                self._step()
                return
            if first:
                problem = _no_tls_error()
        except BlockingIOError:
            return
        except OSError as error:
            problem = error
        self._loop.remove_reader(self._descriptor)
        self._fail(problem)

    def _step(self) -> None:
        """Run a step of the handshake in a thread."""
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        if self._connected is not None and not self._wrap(self._connected):
            self._fail(ConnectionResetError("the connection was closed during the handshake"))
            return
        self._is_stepping = True
        try:
            if self._handshakes is None:
                self._loop.run_in_executor(None, self._run_step)
            else:
                self._handshakes.submit(self._run_step)
        except RuntimeError as error:  # the listener is closed
            self._is_stepping = False
            self._fail(ConnectionError(str(error)))

    def _run_step(self) -> None:
        """Run a step of the handshake, in a thread. Then call `_on_step` on the event loop.

        An asyncio future would call it one iteration of the event loop later.

        If the transport was closed in the meantime, this thread closes the socket, because the event
        loop may have ended. `close` writes `_is_closed` before it reads `_is_stepping`, so at least
        one of the two closes it.
        """
        failure: Exception | None = None
        try:
            self._socket.do_handshake()
        except Exception as error:  # noqa: BLE001  `_on_step` handles it
            failure = error.with_traceback(None)  # the traceback would refer to this frame
        self._is_stepping = False
        if self._is_closed:
            self._close_socket()
            return
        try:
            self._loop.call_soon_threadsafe(self._on_step, failure)
        except RuntimeError:
            pass  # the event loop has ended

    def _wrap(self, connected: socket.socket) -> bool:
        """Create OpenSSL's object for the socket; return False if the peer has disconnected.

        `wrap_socket` may close the descriptor of a socket without a peer. From then on, the number may
        be that of another connection. So this runs on the event loop, which forgets the number at once.
        """
        try:
            connected.getpeername()
            self._socket = self._context.wrap_socket(
                connected,
                server_side=self._server_name is None,
                server_hostname=self._server_name,
                do_handshake_on_connect=False,
            )
        except OSError:
            if connected.fileno() < 0:
                self.prefer()
                self._descriptor = -1
            return False
        self._stream = TlsStream(self._socket, _file_buffer.view)
        self._connected = None
        return True

    def _close_socket(self) -> None:
        (self._connected or self._socket).close()

    def _on_step(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        if isinstance(error, ssl.SSLWantReadError):
            self._loop.add_reader(self._descriptor, self._step_on_bytes)
        elif isinstance(error, ssl.SSLWantWriteError):
            self._loop.add_writer(self._descriptor, self._step)
        elif error is not None:
            self._fail(error if isinstance(error, OSError) else ConnectionError(str(error)))
        else:
            self._state = _State.OPEN
            self._end_wait()
            if self._on_readable is not None:
                self.watch_readable(self._on_readable)
            if self._on_writable is not None:
                self.watch_writable(self._on_writable)

    def _fail(self, error: OSError) -> None:
        self._state, self._error = _State.FAILED, error
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self._refusal = _reason(error)
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS_REASONS:
            self._send_alert()
        self._end_wait()
        self._loop.call_soon(self._report_failure)

    def _send_alert(self) -> None:
        """Tell a client that does not use TLS that it has to. Some clients recognize the alert."""
        try:
            os.read(self._descriptor, CALL_BYTES_MAX)  # else the close could discard the alert
        except OSError:
            pass
        try:
            os.write(self._descriptor, PROTOCOL_VERSION_ALERT)
        except OSError:
            pass  # the client has disconnected

    def _end_wait(self) -> None:
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def _report_failure(self) -> None:
        """Call a callback, whose next call of a method raises the error."""
        callback = self._on_readable or self._on_writable
        if callback is not None and not self._is_closed:
            callback()

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise self._error or BlockingIOError

    # -- bytes ----------------------------------------------------------------------------------

    def recv_into(self, buffer: bytearray | memoryview, /) -> int:
        """See `Transport`. Receive as many records as fit into the buffer, or one request."""
        self._check_open()
        stream = self._stream
        received = stream.recv_into(buffer)
        if stream.has_more:
            self._schedule_pending()
        return received

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """See `Transport`."""
        self._check_open()
        return self._stream.send(memoryview(data), False)

    def send_parts(
        self, parts: Sequence[bytes | bytearray | memoryview], more: bool = False, /
    ) -> int:
        """See `Transport`."""
        self._check_open()
        return self._stream.send_parts(parts, more)

    def send_file(self, part: FileRange, more: bool = False, /) -> int:
        """See `Transport`."""
        self._check_open()
        return self._stream.send_file(part, more)

    # -- readiness ------------------------------------------------------------------------------

    def watch_readable(self, callback: Callable[[], object], /) -> None:
        """See `Transport`."""
        self._on_readable = callback
        if self._state is _State.OPEN:
            self._loop.add_reader(self._descriptor, callback)
            self._schedule_pending()
        elif self._state is _State.FAILED:
            self._loop.call_soon(self._report_failure)

    def unwatch_readable(self) -> None:
        """See `Transport`."""
        if self._on_readable is not None:
            self._on_readable = None
            if self._state is _State.OPEN:
                self._loop.remove_reader(self._descriptor)

    def watch_writable(self, callback: Callable[[], object], /) -> None:
        """See `Transport`."""
        self._on_writable = callback
        if self._state is _State.OPEN:
            self._loop.add_writer(self._descriptor, callback)

    def unwatch_writable(self) -> None:
        """See `Transport`."""
        if self._on_writable is not None:
            self._on_writable = None
            if self._state is _State.OPEN:
                self._loop.remove_writer(self._descriptor)

    def _schedule_pending(self) -> None:
        """If decrypted bytes wait in memory, call the callback in the next iteration."""
        if self._on_readable is None or self._is_pending_scheduled or not self._stream.is_pending():
            return
        self._is_pending_scheduled = True
        self._loop.call_soon(self._receive_pending)

    def _receive_pending(self) -> None:
        self._is_pending_scheduled = False
        if self._is_closed or self._on_readable is None or not self._stream.is_pending():
            return
        self._on_readable()
        if not self._is_closed:
            self._schedule_pending()

    def prefer(self) -> None:
        """See `Transport`."""
        if self._is_deferred:
            self._is_deferred = False
            event_loop.prefer(self._loop, self._descriptor)

    def close(self) -> None:
        """See `Transport`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._error = self._on_readable = self._on_writable = None
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self.prefer()
        if self._is_stepping:
            return  # `_run_step` closes the socket, which the thread still uses
        if self._state is _State.OPEN:
            try:
                self._socket.unwrap()  # send the alert that tells the client of the end
            except (OSError, ValueError):
                pass
        self._close_socket()

    def __repr__(self) -> str:
        return f"TlsTransport({self.local_address} to {self.peer_address})"


async def connect_tls(
    connected: socket.socket,
    context: ssl.SSLContext,
    host: str,
    loop: asyncio.AbstractEventLoop,
    local_address: Any,
    peer_address: Any,
) -> TlsTransport:
    """Return the client's end of a connection after the handshake.

    Raises:
        TlsError: the handshake has failed.
    """
    transport = TlsTransport(connected, context, None, loop, local_address, peer_address, host)
    try:
        await transport.opened()
    except OSError as error:
        transport.close()
        raise TlsError(f"the TLS handshake failed: {_reason(error)}") from error
    except BaseException:
        transport.close()
        raise
    return transport


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return error.strerror or str(error)
