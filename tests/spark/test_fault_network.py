"""The cuts of `tests.spark.faults.network` do what their names say."""

from __future__ import annotations

import queue
import socket
import threading

import pytest
from tests.spark.faults.network import HOST, LATE, LOSE, MUTE, RESET, STALL, Network

TIMEOUT = 30.0
NOTHING_SECONDS = 0.1


class Echo:
    """A server that keeps what it receives, and sends it back."""

    def __init__(self) -> None:
        self.received: queue.Queue[bytes] = queue.Queue()
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it is closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1000):
                    self.received.put(data)
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._listener.close()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network():
    made = Network()
    yield made
    made.close()


@pytest.fixture
def connect(echo, network):
    opened = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection((HOST, network.port_to(echo.port)), TIMEOUT))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def exchange(client: socket.socket, echo: Echo, data: bytes) -> None:
    client.sendall(data)
    assert client.recv(1000) == data
    assert echo.received.get(timeout=TIMEOUT) == data


def is_reset(client: socket.socket) -> bool:
    try:
        return client.recv(1000) == b""
    except ConnectionError:
        return True


def test_bytes_that_are_stalled_arrive_later(echo, network, connect):
    client = connect()
    exchange(client, echo, b"1")
    network.cut([echo.port], STALL)
    client.sendall(b"2")
    with pytest.raises(queue.Empty):
        echo.received.get(timeout=NOTHING_SECONDS)
    network.heal()
    assert client.recv(1000) == b"2"


@pytest.mark.parametrize("way", [LOSE, MUTE])
def test_lost_bytes_end_in_a_reset(echo, network, connect, way):
    client, idle = connect(), connect()
    exchange(client, echo, b"1")
    exchange(idle, echo, b"1")
    network.cut([echo.port], way)
    client.sendall(b"2")
    client.settimeout(NOTHING_SECONDS)
    with pytest.raises(TimeoutError):
        client.recv(1000)
    if way == MUTE:
        assert echo.received.get(timeout=TIMEOUT) == b"2"
    assert echo.received.empty()
    network.heal()
    client.settimeout(TIMEOUT)
    assert is_reset(client)
    exchange(idle, echo, b"3")


def test_connections_are_reset(echo, network, connect):
    client = connect()
    exchange(client, echo, b"1")
    network.cut([echo.port], RESET)
    assert is_reset(client)
    assert is_reset(connect())
    network.heal()
    exchange(connect(), echo, b"2")


def test_a_late_request_arrives_after_the_one_that_repeats_it(echo, network, connect):
    client = connect()
    exchange(client, echo, b"1")
    network.cut([echo.port], LATE)
    client.sendall(b"late")
    assert is_reset(client)
    exchange(connect(), echo, b"again")
    network.heal()
    assert echo.received.get(timeout=TIMEOUT) == b"late"
