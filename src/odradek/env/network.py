"""Network connections and listeners.

A `Network` binds listeners and opens connections. A `Listener` accepts connections. Each connection
is a `Transport`, which sends and receives bytes. The node's servers and its connections to other
nodes use only these interfaces, so that the same code works with TCP, with TLS (`odradek.env.tls`)
and in a simulation.

Every implementation guarantees:

- No method except `bind` blocks. `recv_into`, `send`, `send_parts`, `send_file` and `accept` raise
  `BlockingIOError` when they cannot make progress now. If a method of a transport raises another
  `OSError`, the connection has failed, and the caller closes the transport.
- Readiness is level-triggered. A callback for reading is called in every iteration of the event
  loop in which `recv_into` would not raise `BlockingIOError`. Callbacks for `send` and `accept`
  work in the same way. Bytes in a buffer of the transport, such as bytes that TLS has decrypted,
  count too. To stop reading, the caller removes the callback (`unwatch_readable`).
- A method of a transport never calls a callback itself. No callback is called after the caller has
  removed it or closed the transport.
- `recv_into` returns 0 when the peer has ended its sending direction. Sending is still possible.
- `send`, `send_parts` and `send_file` return the number of bytes that they accepted. The caller
  passes the remaining bytes again, unchanged, and may add bytes after them.
- `accept` may return a transport before a TLS handshake is complete. Until then, the methods that
  receive and send raise `BlockingIOError`.
- All methods except `bind` must be called on the event loop's thread.

`SocketTransport.recv_into` and `SocketTransport.send` are methods of the socket itself, so that a
call has no overhead in Python.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from odradek.env import congestion_control, event_loop
from odradek.env.certificate_names import CertificateNames, certificate_names, check_change
from odradek.env.file_range import FileRange
from odradek.env.tls import HANDSHAKE_THREADS, TlsTransport, connect_tls
from odradek.env.tls_context import make_client_context, make_context
from odradek.env.tls_files import ClientTls, ServerTls

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview
Callback = Callable[[], object]

JOINED_BYTES_MAX = 16 * 1024
"""Parts of up to this size in total are joined, which costs less than `sendmsg` with parts."""
READ_BYTES_MAX = 128 * 1024
"""Maximum number of bytes read at a time from a file that cannot be sent without a copy."""

_GATHERED_MAX = 1024  # IOV_MAX of Linux and macOS
_MORE: int = getattr(socket, "MSG_MORE", 0)  # Linux: more data follows at once, so delay the packet
_sendfile: Callable[[int, int, int, int], int] | None = getattr(os, "sendfile", None)
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_MAPPED_PREFIX = "::ffff:"
_LOOPBACK = ("127.", "::1")


class Address(NamedTuple):
    """A host, as a numeric address or a name, and a port."""

    host: str
    port: int


class HostUnknown(OSError):
    """A host name has no address."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a connection. A size of -1 keeps the system's default."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    one_protocol: bool = False
    """Whether a listener on 0.0.0.0 or :: accepts only IPv4 or only IPv6. Otherwise both mean all
    addresses of the machine, as in Java."""
    tls: ServerTls | None = None
    """The key and the certificates, if a listener uses TLS."""
    client_tls: ClientTls | None = None
    """The trusted certificates and the own key, if a connection to another node uses TLS."""


DEFAULT_OPTIONS = StreamOptions()


class Transport(Protocol):
    """A connection, with the guarantees that the module's docstring lists."""

    @property
    def local_address(self) -> Address:
        """The local address. For an accepted connection, the address that the client used."""
        ...

    @property
    def peer_address(self) -> Address:
        """The remote address, in the form of IPv4 if an IPv4 client uses an IPv6 listener."""
        ...

    def recv_into(self, buffer: WritableBuffer, /) -> int:
        """Receive into the buffer; return the number of bytes, 0 at the end of the stream."""
        ...

    def send(self, data: Buffer, /) -> int:
        """Send bytes; return the number of bytes accepted."""
        ...

    def send_parts(self, parts: Sequence[Buffer], more: bool = False, /) -> int:
        """Send all parts; return the number of bytes accepted.

        `more` says that the caller sends other bytes at once. The last packet waits for them.
        """
        ...

    def send_file(self, part: FileRange, more: bool = False, /) -> int:
        """Send a range of a file; return the number of bytes accepted.

        `part` is not changed. It must not be a `BufferedRange`. Where possible, the bytes are sent
        without a copy. Return 0 only if the file ends before the range. `more` says that the caller
        sends other bytes at once after the range.
        """
        ...

    def watch_readable(self, callback: Callback, /) -> None:
        """Call `callback` whenever data can be received; replace an earlier callback."""
        ...

    def unwatch_readable(self) -> None:
        """Stop calling the callback; no error if nothing is watched."""
        ...

    def watch_writable(self, callback: Callback, /) -> None:
        """Call `callback` whenever data can be sent; replace an earlier callback."""
        ...

    def unwatch_writable(self) -> None:
        """Stop calling the callback; no error if nothing is watched."""
        ...

    def prefer(self) -> None:
        """Serve this connection like all others from now on.

        An accepted connection is served after others if many are ready at once (`event_loop`).
        """
        ...

    def close(self) -> None:
        """Remove the callbacks and close the connection. No error if it is closed already.

        The peer still receives the bytes that were accepted before.
        """
        ...


class Listener(Protocol):
    """A bound address that accepts connections."""

    @property
    def address(self) -> Address:
        """The bound address, with the actual port if port 0 was requested."""
        ...

    def listen(self, backlog: int) -> None:
        """Let clients connect. Up to `backlog` connections may wait to be accepted.

        Raises:
            OSError: another process listens on the same address.
        """
        ...

    def accept(self) -> Transport:
        """Accept the next connection.

        Raises:
            BlockingIOError: no connection is waiting.
            OSError: the connection cannot be accepted now, for example because no descriptor is
                free. The connection stays in the queue.
        """
        ...

    def watch(self, callback: Callback) -> None:
        """Call `callback` whenever a connection waits to be accepted."""
        ...

    def unwatch(self) -> None:
        """Stop calling the callback; no error if nothing is watched."""
        ...

    def close(self) -> None:
        """Close the listener; accepted connections stay open. No error if it is closed already."""
        ...


class Network(Protocol):
    """Binds listeners and opens connections."""

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """Bind an address.

        For port 0, the system chooses a free port. An empty host, 0.0.0.0 and :: mean all addresses
        of this machine, IPv4 and IPv6 if the system supports both. `options` apply to accepted
        connections.

        Raises:
            HostUnknown: the host name has no address.
            OSError: the address cannot be bound.
        """
        ...

    def own_host(self) -> str:
        """Return the name of this machine, as other machines know it."""
        ...

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """Try the addresses of the host in order, and connect to the first that accepts.

        Raises:
            HostUnknown: the host name has no address.
            TimeoutError: no address accepted within `timeout_ms`.
            TlsError: the files of TLS cannot be used, or the TLS handshake has failed.
            OSError: no address accepted. This is the error of the last address. (The other errors
                are subclasses of OSError.)
        """
        ...


Resolved = Sequence[tuple[int, Any]]
Resolve = Callable[[str, int], Awaitable[Resolved]]
"""Returns pairs of address family and address for a host and port, as `socket.connect` needs them.
Raises `HostUnknown`."""


_ALL_OF_IPV4, _ALL_OF_IPV6 = "0.0.0.0", "::"  # noqa: S104  what the user may write


class SocketNetwork:
    """TCP over the system's sockets."""

    __slots__ = ("_resolve",)

    def __init__(self, resolve: Resolve | None = None) -> None:
        """`resolve` looks up host names; None means `getaddrinfo` of the event loop."""
        self._resolve = resolve or _resolve

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """See `Network`."""
        family, address = _to_bind(host, options.one_protocol)
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                has_ipv4 = address == _ALL_OF_IPV6 and not options.one_protocol
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not has_ipv4)
            made.bind((address, port))
            return SocketListener(made, options)
        except BaseException:
            made.close()
            raise

    def own_host(self) -> str:
        """See `Network`. Java's `getCanonicalHostName` would return localhost more often."""
        name = socket.getfqdn()
        if name.startswith("localhost"):
            name = socket.gethostname()  # /etc/hosts has the name beside localhost
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return "localhost"
        return name

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """See `Network`."""
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        tls = options.client_tls
        async with asyncio.timeout(timeout_ms / 1000):
            context = (
                None if tls is None else await loop.run_in_executor(None, make_client_context, tls)
            )
            for family, address in await self._resolve(host, port):
                made = socket.socket(family, socket.SOCK_STREAM)
                try:
                    made.setblocking(False)
                    _use_sizes(made, options)
                    if str(address[0]).startswith(_LOOPBACK):
                        congestion_control.avoid_pacing(made)
                    await loop.sock_connect(made, address)
                    if context is not None:
                        ends = _address(made.getsockname()), _address(made.getpeername())
                        return await connect_tls(made, context, host, loop, *ends)
                    return SocketTransport(made, loop, made.getpeername())
                except OSError as error:
                    made.close()
                    failure = error
                except BaseException:
                    made.close()
                    raise
        assert failure is not None, "a host that is found has an address"
        raise failure


def host_address(host: str) -> str:
    """Return the first address of a host, in the notation of `Address.host`. Do not call it often: a
    name may have to be looked up.

    Raises:
        HostUnknown: the host name has no address.
    """
    return _address((_first_address(host)[1], 0)).host


def _first_address(host: str) -> tuple[int, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise HostUnknown(error.errno, error.strerror) from error
    return int(found[0][0]), str(found[0][4][0])


def _to_bind(host: str, one_protocol: bool) -> tuple[int, str]:
    """Return the family and the address of a socket that listens on a host."""
    family, address = _first_address(host or _ALL_OF_IPV4)
    if address == _ALL_OF_IPV4 and not one_protocol and socket.has_dualstack_ipv6():
        return int(socket.AF_INET6), _ALL_OF_IPV6
    return family, address


async def _resolve(host: str, port: int) -> Resolved:
    loop = asyncio.get_running_loop()
    try:  # a numeric address is resolved here; names are looked up on another thread
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise HostUnknown(error.errno, error.strerror) from error
    return [(int(family), address) for family, _, _, _, address in found]


def _use_sizes(made: socket.socket, options: StreamOptions) -> None:
    for option, size in (
        (socket.SO_SNDBUF, options.send_buffer_bytes),
        (socket.SO_RCVBUF, options.receive_buffer_bytes),
    ):
        if size >= 0:
            made.setsockopt(socket.SOL_SOCKET, option, size)


class SocketListener:
    """A `Listener` on a system socket."""

    __slots__ = (
        "_congestion_control",
        "_context",
        "_handshakes",
        "_local",
        "_loop",
        "_names",
        "_options",
        "_socket",
        "address",
    )

    def __init__(self, bound: socket.socket, options: StreamOptions) -> None:
        """`bound` is a non-blocking socket."""
        self._socket = bound
        self._options = options
        self._context = None if options.tls is None else make_context(options.tls)
        self._names = None if options.tls is None else certificate_names(options.tls)
        """The names in the certificate of `_context`."""
        self._handshakes = (
            None if options.tls is None else ThreadPoolExecutor(HANDSHAKE_THREADS, "odradek-tls")
        )
        self._congestion_control: bytes | None = None
        """The algorithm for connections from other hosts; None if they keep the listener's one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that watches the listener; None while no callback is watched."""
        name = bound.getsockname()
        self.address = Address(name[0], name[1])
        self._local = self.address
        """The local address of the latest connection. Most connections share this object."""

    def listen(self, backlog: int) -> None:
        """See `Listener`."""
        # Accepted sockets inherit the size of the receive buffer. The size determines the TCP
        # window that the kernel advertises when the connection begins.
        _use_sizes(self._socket, self._options)
        self._congestion_control = congestion_control.avoid_pacing(self._socket)
        self._socket.listen(backlog)

    def accept(self) -> Transport:
        """See `Listener`."""
        while True:
            try:
                accepted, peer = self._socket.accept()
            except ConnectionAbortedError:
                continue
            try:
                accepted.setblocking(False)
                _use_sizes(accepted, self._options)
                transport = self._transport(accepted, peer)
            except OSError:  # macOS: the client has disconnected already
                accepted.close()
            else:
                self._local = transport.local_address
                return transport

    def _transport(
        self, accepted: socket.socket, peer: tuple[str, int]
    ) -> SocketTransport | TlsTransport:
        loop = asyncio.get_running_loop()
        if self._context is None or self._handshakes is None:
            transport = SocketTransport(accepted, loop, peer, self._local)
            transport.defer()
            self._use_congestion_control(accepted, transport.is_local)
            return transport
        local, remote = _address(accepted.getsockname()), _address(peer)
        self._use_congestion_control(accepted, local.host == remote.host)
        return TlsTransport(accepted, self._context, self._handshakes, loop, local, remote)

    def _use_congestion_control(self, accepted: socket.socket, is_local: bool) -> None:
        if self._congestion_control is not None and not is_local:
            congestion_control.restore(accepted, self._congestion_control)

    @property
    def certificate_names(self) -> CertificateNames | None:
        """The names in the certificate that is used; None if they are not known."""
        return self._names

    def use_tls(self, tls: ServerTls) -> None:
        """Use another key and other certificates for new connections. Read the files again.

        Raises:
            TlsError: a file cannot be used, or names of the certificate are missing. The listener
                keeps its key and its certificates.
        """
        assert self._context is not None, "the protocol of a listener does not change"
        context, names = make_context(tls), certificate_names(tls)
        check_change(self._names, names, tls)
        self._context, self._names = context, names

    def watch(self, callback: Callback) -> None:
        """See `Listener`."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), callback)

    def unwatch(self) -> None:
        """See `Listener`."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop = None

    def close(self) -> None:
        """See `Listener`."""
        self.unwatch()
        self._socket.close()
        if self._handshakes is not None:
            self._handshakes.shutdown(wait=False, cancel_futures=False)


class SocketTransport:
    """A `Transport` over a TCP socket."""

    __slots__ = (
        "_descriptor",
        "_is_deferred",
        "_is_read",
        "_is_written",
        "_loop",
        "_sendfile",
        "_socket",
        "local_address",
        "peer_address",
        "recv_into",
        "send",
    )

    recv_into: Callable[[WritableBuffer], int]
    send: Callable[[Buffer], int]

    def __init__(
        self,
        connected: socket.socket,
        loop: asyncio.AbstractEventLoop,
        peer: tuple[str, int],
        local: Address | None = None,
    ) -> None:
        """`connected` is a non-blocking socket.

        If `local` equals the socket's local address, the transport uses this object.

        Raises:
            OSError: the peer has disconnected.
        """
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self._descriptor = connected.fileno()
        self._loop = loop
        self._is_deferred = False
        self._is_read = False
        self._is_written = False
        self._sendfile = _sendfile
        found = _address(connected.getsockname())
        self.local_address = local if local is not None and found == local else found
        self.peer_address = _address(peer)
        self.recv_into = connected.recv_into
        self.send = connected.send

    @property
    def is_local(self) -> bool:
        """Whether the peer is on this host. If so, both ends have the same address."""
        return self.local_address.host == self.peer_address.host

    def send_parts(self, parts: Sequence[Buffer], more: bool = False, /) -> int:
        """See `Transport`."""
        flags = _MORE if more else 0
        if len(parts) == 1:
            return self._socket.send(parts[0], flags)
        if sum(map(len, parts)) <= JOINED_BYTES_MAX:
            return self._socket.send(b"".join(parts), flags)
        if len(parts) > _GATHERED_MAX:
            parts, flags = parts[:_GATHERED_MAX], _MORE
        return self._socket.sendmsg(parts, (), flags)

    def send_file(self, part: FileRange, more: bool = False, /) -> int:
        """See `Transport`. Packets do not wait for the bytes after the range."""
        if self._sendfile is not None:
            try:
                return self._sendfile(self._descriptor, part.descriptor, part.position, part.length)
            except OSError as error:
                if error.errno not in _NO_SENDFILE:
                    raise
            self._sendfile = None  # the file system does not support it
        data = os.pread(part.descriptor, min(part.length, READ_BYTES_MAX), part.position)
        return self._socket.send(data) if data else 0

    def watch_readable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._is_read = True
        self._loop.add_reader(self._descriptor, callback)

    def unwatch_readable(self) -> None:
        """See `Transport`."""
        if self._is_read:
            self._is_read = False
            self._loop.remove_reader(self._descriptor)

    def watch_writable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._is_written = True
        self._loop.add_writer(self._descriptor, callback)

    def unwatch_writable(self) -> None:
        """See `Transport`."""
        if self._is_written:
            self._is_written = False
            self._loop.remove_writer(self._descriptor)

    def defer(self) -> None:
        """Serve this connection after others until `prefer` is called."""
        self._is_deferred = event_loop.defer(self._loop, self._descriptor, self.peer_address.host)

    def prefer(self) -> None:
        """See `Transport`."""
        if self._is_deferred:
            self._is_deferred = False
            event_loop.prefer(self._loop, self._descriptor)

    def close(self) -> None:
        """See `Transport`."""
        self.unwatch_readable()
        self.unwatch_writable()
        self.prefer()
        self._socket.close()

    def __repr__(self) -> str:
        return f"SocketTransport({self.local_address} to {self.peer_address})"


def _address(name: tuple[str, int]) -> Address:
    host = name[0]
    mapped = host.removeprefix(_MAPPED_PREFIX)
    if mapped != host and "." in mapped:
        host = mapped
    return Address(sys.intern(host), name[1])  # many clients may have the same host
