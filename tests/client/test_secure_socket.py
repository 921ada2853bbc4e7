"""What the client says if a TLS handshake fails because of the other end."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

import pytest

from odradek.client.address import Address
from odradek.client.errors import (
    ClientError,
    ClosedAtOnceError,
    SecurityError,
    UnreachableError,
)
from odradek.client.secure_socket import make_context, secured
from odradek.env.tls_files import ClientTls

INTERNAL_ERROR = b"\x15\x03\x03\x00\x02\x02\x50"
"""An alert of TLS that is not about certificates."""


def closes(_: socket.socket) -> None:
    """Read nothing, as a listener that is at its limit. The client gets a reset."""


def reads_and_closes(connected: socket.socket) -> None:
    connected.recv(10_000)


def resets(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def sends(answer: bytes) -> Callable[[socket.socket], None]:
    def send(connected: socket.socket) -> None:
        connected.recv(10_000)
        connected.sendall(answer)

    return send


def waits(connected: socket.socket) -> None:
    """Close the connection when the client does."""
    while connected.recv(10_000):
        pass


def failure(behaviour: Callable[[socket.socket], None], timeout_ms: int = 10_000) -> ClientError:
    """Return the error of a client whose connection is treated like this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())

        def serve() -> None:
            connected, _ = listener.accept()
            with connected:
                behaviour(connected)

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(address) as connected, pytest.raises(ClientError) as caught:
            secured(make_context(ClientTls()), connected, address, timeout_ms)
        thread.join()
    return caught.value


@pytest.mark.parametrize("behaviour", [closes, reads_and_closes, resets])
def test_a_connection_that_is_closed(behaviour: Callable[[socket.socket], None]) -> None:
    error = failure(behaviour)
    assert isinstance(error, ClosedAtOnceError)
    assert str(error).endswith("closed the connection during the TLS handshake")
    for words in ("security.protocol", "max.connections.per.ip", "The node's log has the reason"):
        assert words in error.advice


def test_bytes_that_are_not_tls() -> None:
    error = failure(sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert isinstance(error, SecurityError)
    assert "does not seem to use TLS" in str(error)
    assert "security.protocol" in error.advice


def test_an_alert() -> None:
    error = failure(sends(INTERNAL_ERROR))
    assert isinstance(error, SecurityError)
    assert "ALERT_INTERNAL_ERROR" in str(error)
    assert error.advice == "The node's log has the reason."


def test_no_answer() -> None:
    error = failure(waits, timeout_ms=200)
    assert isinstance(error, UnreachableError)
    assert "did not answer the TLS handshake" in str(error)
    assert "security.protocol" in error.advice
    assert "max.connections" in error.advice
