"""Long requests over TLS, in TLS records and packets of any length."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.run_seed import run_seed

from odradek.env.network import SocketNetwork, StreamOptions
from odradek.env.tls_files import ServerTls
from odradek.network.connection import Connection
from odradek.network.listeners import bind
from odradek.network.server import Limits, Server

TIMEOUT_SECONDS = 30


def echo_size(connection: Connection, view: memoryview) -> None:
    connection.respond([struct.pack(">i", len(view))], 4)


@asynccontextmanager
async def serving(pki) -> AsyncIterator[tuple[Server, int]]:
    options = StreamOptions(tls=ServerTls(pki.server))
    endpoint = bind(SocketNetwork(), "SSL", "127.0.0.1", 0, options=options)
    server = Server(echo_size, Limits(), [endpoint])
    server.start()
    try:
        yield server, endpoint.port
    finally:
        await server.drain(1000)


class Client:
    """A client that decides which bytes are in a TLS record, and in a packet."""

    def __init__(self, port: int, pki, version: ssl.TLSVersion, seed: int) -> None:
        self.random = random.Random(seed)
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = ssl.create_default_context(cafile=pki.ca)
        context.minimum_version = context.maximum_version = version
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._call(self._tls.do_handshake)
        self.send_encrypted(self._outgoing.read())

    def _call(self, function, *arguments):
        while True:
            try:
                return function(*arguments)
            except ssl.SSLWantReadError:
                self.send_encrypted(self._outgoing.read())
                self._incoming.write(self.socket.recv(1 << 16))

    def encrypted(self, data: bytes) -> bytes:
        """Return TLS records of random lengths."""
        position = 0
        while position < len(data):
            size = self.random.choice((1, 4, 100, 5000, 16_384, 16_384, 16_384))
            self._tls.write(data[position : position + size])
            position += size
        return self._outgoing.read()

    def send_encrypted(self, data: bytes) -> None:
        """Send packets of random lengths, with random pauses."""
        while data:
            size = self.random.choice((1, 5, 21, 1000, 16_406, 30_000, 100_000, 100_000))
            self.socket.sendall(data[:size])
            data = data[size:]
            if not self.random.randrange(3):
                time.sleep(0.001)

    def answer(self) -> int:
        """Return the size of the next request that the server has received."""
        answer = b""
        while len(answer) < 4:
            answer += self._call(self._tls.read, 4 - len(answer))
        (size,) = struct.unpack(">i", answer)
        return size


def requests(client: Client) -> list[int]:
    """Send requests of random sizes, some of them together, and return how many were wrong."""
    wrong = []
    for _ in range(25):
        sizes = [
            client.random.choice((20, 3000, 16_384, 65_600, 66_000, 140_000, 400_000))
            for _ in range(client.random.choice((1, 1, 1, 3)))
        ]
        frames = [struct.pack(">i", size) + bytes(size) for size in sizes]
        client.send_encrypted(client.encrypted(b"".join(frames)))
        wrong += [size for size in sizes if client.answer() != size]
    return wrong


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("number", range(3))
def test_requests_arrive_however_they_are_cut(pki, version, number):
    async def test():
        async with serving(pki) as (_, port):
            seed = 10 * run_seed() + number
            client = await asyncio.to_thread(Client, port, pki, version, seed)
            with client.socket:
                assert await asyncio.to_thread(requests, client) == [], f"seed {seed}"

    asyncio.run(test())


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_leaves_in_a_long_request(pki, reset):
    async def test():
        async with serving(pki) as (server, port):
            client = await asyncio.to_thread(Client, port, pki, ssl.TLSVersion.TLSv1_3, 1)
            part = struct.pack(">i", 100_000) + bytes(20_000)
            await asyncio.to_thread(client.send_encrypted, client.encrypted(part))
            await until(lambda: len(server.connections) == 1)
            if reset:
                linger = struct.pack("ii", 1, 0)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.socket.close()
            await until(lambda: not server.connections)

    asyncio.run(test())


async def until(condition) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)
