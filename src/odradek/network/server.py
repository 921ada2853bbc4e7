"""Listeners and the connections that they accept.

All connections of a server share one receive buffer: it is in use only between a `recv` and the
return of the dispatcher. Limits (frame size, connections in all and per address, idle time) are
kept here; each refusal is counted and logged with its reason.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from odradek.network.connection import Connection
from odradek.network.peer import Peer

log = logging.getLogger("odradek.network")

RECEIVE_BUFFER_BYTES = 1024 * 1024
IDLE_SWEEPS = 8
"""An idle connection is noticed with a precision of an eighth of the idle time."""
ACCEPTS_PER_TURN = 64
DRAIN_QUICK_TURNS = 20
"""Turns of the loop in which most answers have left; after them it is looked less often."""


class ListenError(Exception):
    """A listener cannot be opened; says which, why, and what to do."""


@dataclass(slots=True)
class Limits:
    """What one server allows; the names of the settings are Apache Kafka's."""

    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes"""
    connections_max: int = 2**31 - 1
    """max.connections"""
    connections_per_ip_max: int = 2**31 - 1
    """max.connections.per.ip"""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides"""
    idle_ms: int = 600_000
    """connections.max.idle.ms; negative: never"""
    send_buffer_bytes: int = -1
    """socket.send.buffer.bytes; -1: the system's"""
    receive_buffer_bytes: int = -1
    """socket.receive.buffer.bytes; -1: the system's"""
    listen_backlog: int = 50
    """socket.listen.backlog.size"""


@dataclass(slots=True)
class Endpoint:
    """A listener: its name, and the address that it is bound to."""

    name: str
    host: str
    port: int
    socket: socket.socket


Dispatch = Callable[[Connection, memoryview], None]
_HINTS = {
    errno.EADDRINUSE: "; another process uses the port: stop it, or choose another with {option}",
    errno.EADDRNOTAVAIL: "; it is no address of this machine",
    errno.EACCES: "; ports below 1024 are for the administrator: choose another with {option}",
}


def bind(name: str, host: str, port: int, option: str = "--port") -> Endpoint:
    """Reserve the address of a listener; port 0 takes a free one, no host is all of this machine.

    Nobody can connect before the socket listens, which is up to who serves it.

    Raises:
        ListenError: it cannot be had; `option` is named as what helps.
    """
    family = socket.AF_INET
    address = host
    if not host:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        if host:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, address = found[0][0], str(found[0][4][0])
        reserved = _bound_socket(family, address, port)
    except socket.gaierror as error:
        raise ListenError(
            f"Cannot listen on {name}://{host}:{port}: the host name is not known."
        ) from error
    except OSError as error:
        raise _refusal(name, host, port, error, option) from error
    return Endpoint(name, host, reserved.getsockname()[1], reserved)


def _bound_socket(family: int, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # without an address: that of both families
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, bool(address))
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


def listen(endpoint: Endpoint, backlog: int, option: str = "--port") -> None:
    """Let clients connect.

    Raises:
        ListenError: another process bound the same address at the same time, and was first.
    """
    try:
        endpoint.socket.listen(backlog)
    except OSError as error:
        raise _refusal(endpoint.name, endpoint.host, endpoint.port, error, option) from error


def _refusal(name: str, host: str, port: int, error: OSError, option: str) -> ListenError:
    number = error.errno or 0
    hint = _HINTS.get(number, "").format(option=option)
    where = f"{host or '*'}:{port}"
    return ListenError(f"Cannot listen on {name}://{where}: {os.strerror(number)}{hint}.")


class Server:
    """The sockets of a node, for the listeners that were bound for it.

    Runs on one asyncio loop; `dispatch` gets every frame.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        limits: Limits,
        endpoints: Iterable[Endpoint],
        end_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self.dispatch = dispatch
        self.end_turn = end_turn
        """Called after the requests of one wake-up were dispatched and answers were sent."""
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max
        self.buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.endpoints = list(endpoints)
        self.connections: set[Connection] = set()
        self.on_close: Callable[[Connection], None] = lambda connection: None
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        self.frames_refused = 0
        self._by_ip: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._closing = False

    # -- listeners --------------------------------------------------------------------------

    def start(self) -> None:
        """Accept connections on all listeners.

        Raises:
            ListenError: another process does on one of the addresses.
        """
        for endpoint in self.endpoints:
            listen(endpoint, self.limits.listen_backlog)
            endpoint.socket.setblocking(False)
            self._loop.add_reader(endpoint.socket.fileno(), self._accept, endpoint)
        if self.limits.idle_ms > 0:
            self._schedule_sweep()

    def _accept(self, endpoint: Endpoint) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = endpoint.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors: the connection stays in the backlog; look again later.
                log.warning("cannot accept a connection on %s: %s", endpoint.name, error.strerror)
                self._loop.remove_reader(endpoint.socket.fileno())
                self._loop.call_later(1.0, self._accept_again, endpoint)
                return
            self._open(sock, address, endpoint)

    def _accept_again(self, endpoint: Endpoint) -> None:
        if not self._closing:
            self._loop.add_reader(endpoint.socket.fileno(), self._accept, endpoint)

    def _open(self, sock: socket.socket, address: tuple[str, int], endpoint: Endpoint) -> None:
        host = address[0]
        if host.startswith("::ffff:"):
            host = str(ipaddress.ip_address(host[7:]))
        limits = self.limits
        allowed = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if len(self.connections) >= limits.connections_max or self._by_ip[host] >= allowed:
            self.connections_refused += 1
            log.info("refused a connection from %s: too many connections", host)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size in (
            (socket.SO_SNDBUF, limits.send_buffer_bytes),
            (socket.SO_RCVBUF, limits.receive_buffer_bytes),
        ):
            if size >= 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        local = sock.getsockname()
        local_host = local[0].removeprefix("::ffff:")
        peer = Peer(host, address[1], endpoint.name, local_host, local[1])
        self.connections_accepted += 1
        self._by_ip[host] += 1
        self.connections.add(Connection(sock, peer, self, self._loop))

    def use_limits(self, limits: Limits) -> None:
        """Go by other limits from now on; open connections stay."""
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max

    # -- connections ------------------------------------------------------------------------

    def refuse_size(self, connection: Connection, size: int) -> None:
        """Close a connection that announced a frame of an impossible size."""
        self.frames_refused += 1
        log.warning(
            "closed the connection of %s:%d: it announced a request of %d bytes (allowed: up to "
            "%d, socket.request.max.bytes)",
            connection.peer.host, connection.peer.port, size, self.request_bytes_max,
        )  # fmt: skip
        connection.refuse()

    def forget(self, connection: Connection) -> None:
        """A connection has closed itself."""
        self.connections.discard(connection)
        host = connection.peer.host
        self._by_ip[host] -= 1
        if not self._by_ip[host]:
            del self._by_ip[host]
        self.on_close(connection)

    def _schedule_sweep(self) -> None:
        delay = self.limits.idle_ms / 1000 / IDLE_SWEEPS
        self._sweep = self._loop.call_later(delay, self._sweep_idle)

    def _sweep_idle(self) -> None:
        for connection in list(self.connections):
            if connection.active or not connection.is_idle:
                connection.active = False
                connection.idle_sweeps = 0
                continue
            connection.idle_sweeps += 1
            if connection.idle_sweeps >= IDLE_SWEEPS:
                connection.close()
        self._schedule_sweep()

    # -- the end ----------------------------------------------------------------------------

    async def drain(self, timeout_ms: int) -> None:
        """Accept nothing more, let answers under way leave, then close all connections."""
        self._closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self.endpoints:
            listening = self.endpoints.pop().socket
            self._loop.remove_reader(listening.fileno())
            listening.close()
        deadline = self._loop.time() + timeout_ms / 1000
        turns = 0
        while self.connections and self._loop.time() < deadline:
            for connection in list(self.connections):
                if connection.is_idle:  # before its client asks for more
                    connection.close()
            turns += 1
            await asyncio.sleep(0 if turns < DRAIN_QUICK_TURNS else 0.01)
        for connection in list(self.connections):
            connection.close()
