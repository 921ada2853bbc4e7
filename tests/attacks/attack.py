"""What all attacks have in common: a name, a count, a bound of the node's memory, and connections.

An attack is a function with the decorator `attack`. It ends by itself, and closes its connections.
All connections are on loopback. Each attack uses source addresses of its own (127.x.y.z), because
ports of closed connections cannot be used again for a minute.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.attacks.target import PASSWORD, USER, Victim

from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest

MEGABYTE = 1 << 20
PATIENCE_SECONDS = 30.0
PER_SOURCE = 5000
"""Connections from one source address."""
BACKLOG = 25
BACKLOG_SECONDS = 0.005
"""A pause after so many connections. If the backlog of the listener (50) is full, a connection takes a
second, also for honest clients. No server can avoid this."""
_sources = itertools.count(1)
_no_linger = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Attack:
    """An attack on a node."""

    name: str
    count: int
    growth_max_bytes: int
    """The node's memory may grow by this many bytes meanwhile."""
    run: Callable[[Victim, int], object]


ATTACKS: list[Attack] = []


def attack(
    name: str, *, count: int, growth_max_megabytes: int
) -> Callable[[Callable[[Victim, int], object]], Callable[[Victim, int], object]]:
    """Add a function of a node and a count to the attacks."""

    def add(run: Callable[[Victim, int], object]) -> Callable[[Victim, int], object]:
        ATTACKS.append(Attack(name, count, growth_max_megabytes * MEGABYTE, run))
        return run

    return add


def connect(port: int, source: str = "") -> socket.socket:
    """Open a connection to the node."""
    made = socket.socket()
    try:
        made.settimeout(PATIENCE_SECONDS)
        if source:
            made.bind((source, 0))
        made.connect(("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


@contextlib.contextmanager
def many(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Yield many connections, and close them."""
    connections: list[socket.socket] = []
    source = ""
    try:
        for number in range(count):
            if number % PER_SOURCE == 0:
                source = _source()
            if number % BACKLOG == 0:
                time.sleep(BACKLOG_SECONDS)
            connections.append(connect(port, source))
        yield connections
    finally:
        for each in connections:
            each.close()


def _source() -> str:
    number = next(_sources)
    return f"127.9.{number // 250}.{number % 250 + 1}"


def chunks(count: int, size: int) -> Iterator[int]:
    """Divide a count into parts."""
    for begin in range(0, count, size):
        yield min(size, count - begin)


def reset(connection: socket.socket) -> None:
    """Close a connection with a reset, as a client that has crashed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _no_linger)
    connection.close()


def hold(seconds: float) -> None:
    """Keep everything as it is."""
    time.sleep(seconds)


def send_quietly(connection: socket.socket, data: bytes) -> bool:
    """Send bytes; return whether the connection is still open."""
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def is_closed(connection: socket.socket) -> bool:
    """Read until the end of the stream; return False if it does not end in some seconds."""
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def closed_of(connections: Iterable[socket.socket]) -> int:
    """How many of the connections the node has closed."""
    poll = select.poll()
    count = 0
    for each in connections:
        poll.register(each, select.POLLIN | select.POLLHUP | select.POLLERR)
        for _, event in poll.poll(0):
            if event & (select.POLLHUP | select.POLLERR) or not _has_bytes(each):
                count += 1
        poll.unregister(each)
    return count


def _has_bytes(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def frame(body: bytes) -> bytes:
    """A body after its length."""
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int) -> bytes:
    """A header of version 1 without a client id."""
    return struct.pack(">hhih", key, version, 7, -1)


def tls_context(victim: Victim) -> ssl.SSLContext:
    """Of a client that trusts the node."""
    return ssl.create_default_context(cafile=str(victim.authority_file))


def handshake(mechanism: str) -> bytes:
    """A SaslHandshake request."""
    return frame(header(17, 1) + SaslHandshakeRequest(mechanism=mechanism).encode(1))


def authenticate(token: bytes) -> bytes:
    """A SaslAuthenticate request."""
    return frame(header(36, 1) + SaslAuthenticateRequest(auth_bytes=token).encode(1))


def receive_frame(connection: socket.socket) -> bytes:
    """The next response.

    Raises:
        ConnectionError: the connection is closed.
    """
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the node has closed the connection")
        data += part
    return data


def log_in(connection: socket.socket, password: str = PASSWORD) -> bytes:
    """Authenticate with PLAIN; return the response."""
    connection.sendall(handshake("PLAIN"))
    receive_frame(connection)
    connection.sendall(authenticate(f"\0{USER}\0{password}".encode()))
    return receive_frame(connection)
