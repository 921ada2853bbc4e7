"""Attacks with TLS and SASL."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
from collections.abc import Callable

from tests.attacks.attack import (
    attack,
    authenticate,
    chunks,
    connect,
    frame,
    handshake,
    header,
    hold,
    is_closed,
    many,
    reset,
    send_quietly,
    tls_context,
)
from tests.attacks.target import USER, Victim

CONNECTIONS = 50
"""Connections at the same time."""


class Client:
    """A client's end of TLS in memory, so that an attack can send a part of what it says."""

    def __init__(self, victim: Victim, connection: socket.socket) -> None:
        self.connection = connection
        self._received, self.said = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.end = tls_context(victim).wrap_bio(
            self._received, self.said, server_hostname="127.0.0.1"
        )

    def hello(self) -> bytes:
        """The first message of the handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.end.do_handshake()
        return self.said.read()

    def shake_hands(self) -> None:
        """Complete the handshake."""
        while True:
            try:
                self.end.do_handshake()
            except ssl.SSLWantReadError:
                self.connection.sendall(self.said.read())
                self._received.write(self.connection.recv(1 << 16))
            else:
                self.connection.sendall(self.said.read())
                return

    def encrypt(self, data: bytes) -> bytes:
        """The bytes of TLS records."""
        self.end.write(data)
        return self.said.read()


@attack("TLS handshakes that are dropped midway", count=3_000, growth_max_megabytes=150)
def dropped_handshakes(victim: Victim, count: int) -> None:
    for size in chunks(count, CONNECTIONS):
        with many(victim.ports["SSL"], size) as connections:
            for number, each in enumerate(connections):
                hello = Client(victim, each).hello()
                match number % 4:
                    case 0:  # a part of the first message
                        send_quietly(each, hello[: len(hello) // 2])
                    case 1:  # all of it; the response is not read
                        send_quietly(each, hello)
                    case 2:  # all of it, and the response is awaited
                        send_quietly(each, hello)
                        each.recv(1)
                    case _:
                        send_quietly(each, hello)
                        reset(each)


@attack("TLS handshakes that are never finished", count=3_000, growth_max_megabytes=250)
def open_handshakes(victim: Victim, count: int) -> None:
    with many(victim.ports["SSL"], count) as connections:
        for each in connections:
            assert send_quietly(each, Client(victim, each).hello())
        hold(3)


@attack("bytes that are no TLS", count=10_000, growth_max_megabytes=60)
def no_tls(victim: Victim, count: int) -> None:
    for size in chunks(count, CONNECTIONS):
        with many(victim.ports["SSL"], size) as connections:
            for each in connections:
                send_quietly(each, b"\0\0" + os.urandom(300))
            assert all(is_closed(each) for each in connections)


@attack("TLS records that are truncated or damaged", count=1_500, growth_max_megabytes=150)
def truncated_records(victim: Victim, count: int) -> None:
    for size in chunks(count, CONNECTIONS):
        with many(victim.ports["SSL"], size) as connections:
            for number, each in enumerate(connections):
                client = Client(victim, each)
                client.shake_hands()
                data = client.encrypt(frame(header(18, 0) + bytes(5_000)))
                match number % 3:
                    case 0:  # a part, and the connection stays open
                        each.sendall(data[: len(data) // 2])
                    case 1:  # a part, and the end without an alert
                        each.sendall(data[: len(data) // 2])
                        each.shutdown(socket.SHUT_WR)
                        assert is_closed(each)
                    case _:
                        damaged = bytearray(data)
                        damaged[len(data) // 2] ^= 1
                        each.sendall(damaged)
                        assert is_closed(each)


@attack("TLS handshakes and nothing else", count=1_500, growth_max_megabytes=100)
def handshakes(victim: Victim, count: int) -> None:
    for size in chunks(count, CONNECTIONS):
        with many(victim.ports["SSL"], size) as connections:
            for each in connections:
                Client(victim, each).shake_hands()


def _wrong_plain(connection: socket.socket) -> None:
    connection.sendall(handshake("PLAIN") + authenticate(f"\0{USER}\0wrong".encode()))


def _wrong_scram(connection: socket.socket) -> None:
    nonce = base64.b64encode(os.urandom(12)).decode()
    token = f"n,,n=nobody,r={nonce}".encode()
    connection.sendall(handshake("SCRAM-SHA-256") + authenticate(token))


def _no_token(connection: socket.socket) -> None:
    connection.sendall(handshake("PLAIN") + frame(header(3, 4) + bytes(5)))


def _no_sasl(connection: socket.socket) -> None:
    connection.sendall(frame(header(0, 9) + os.urandom(200)))


def _long_token(connection: socket.socket) -> None:
    token = b"\0" + b"x" * 400_000 + b"\0wrong"
    connection.sendall(handshake("PLAIN") + authenticate(token))


WRONG: tuple[Callable[[socket.socket], None], ...] = (
    _wrong_plain, _wrong_scram, _no_token, _no_sasl, _long_token,
)  # fmt: skip


@attack("wrong passwords and requests before SASL", count=5_000, growth_max_megabytes=100)
def wrong_sasl(victim: Victim, count: int) -> None:
    for size in chunks(count, CONNECTIONS):
        with many(victim.ports["SASL_PLAINTEXT"], size) as connections:
            for number, each in enumerate(connections):
                WRONG[number % len(WRONG)](each)
            assert all(is_closed(each) for each in connections)


@attack("wrong passwords over TLS", count=100, growth_max_megabytes=100)
def wrong_sasl_over_tls(victim: Victim, count: int) -> None:
    context = tls_context(victim)
    for _ in range(count):
        with (
            connect(victim.ports["SASL_SSL"]) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
        ):
            _wrong_plain(encrypted)
            assert is_closed(encrypted)
