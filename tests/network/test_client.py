"""A client against a server, both on real connections."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.env.network import SocketNetwork
from odradek.network import client as client_module
from odradek.network.client import HandshakeError, NodeClient
from odradek.network.client_machine import (
    ClientClosed,
    ClientSettings,
    ConnectionLost,
    NotConnected,
    RequestTimedOut,
)
from odradek.network.connection import Connection
from odradek.network.listeners import bind
from odradek.network.server import Limits, Server
from odradek.network.sessions import Session

TIMEOUT_MS = 15_000


def run(coroutine):
    asyncio.run(coroutine)


class Node:
    """Answers each request with its payload; what a request asks for otherwise is in its key."""

    ECHO, SILENT, CLOSE, WRONG = range(4)

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, bytes]] = []

    def __call__(self, connection: Connection, view: memoryview) -> None:
        key, version, correlation_id = struct.unpack_from(">hhi", view)
        payload = bytes(view[8:])
        self.requests.append((key, version, payload))
        if key == self.CLOSE:
            connection.close()
        elif key != self.SILENT:
            correlation_id += key == self.WRONG
            head = struct.pack(">ii", len(payload) + 4, correlation_id)
            connection.respond([head, payload], len(payload) + 8)


@asynccontextmanager
async def connected(network=None, **options) -> AsyncIterator[tuple[Node, NodeClient, Server]]:
    network = network or SocketNetwork()
    endpoint = bind(network, "TEST", "127.0.0.1", 0)
    node = Node()
    server = Server(node, Limits(), [endpoint])
    server.start()
    client = NodeClient(network, "127.0.0.1", endpoint.port, os.urandom, **options)
    try:
        yield node, client, server
    finally:
        client.close()
        await server.drain(1000)


def test_responses_come_in_order_whatever_their_size():
    async def scenario():
        async with connected() as (_, client, _):
            payloads = [os.urandom(size) for size in (0, 10, 3_000_000, 1, 70_000, 20)]
            calls = [client.call(0, 1, [each[:5], each[5:]], TIMEOUT_MS) for each in payloads]
            assert await asyncio.gather(*calls) == payloads
            assert client.is_open

    run(scenario())


def test_a_view_is_handed_over_and_the_next_request_may_be_sent_from_there():
    async def scenario():
        async with connected() as (_, client, _):
            done = asyncio.get_running_loop().create_future()
            seen = []

            def on_done(response, error):
                assert error is None
                assert isinstance(response, memoryview)
                seen.append(bytes(response))
                if len(seen) == 50:
                    done.set_result(None)
                else:
                    client.send(0, 1, [b"%d" % len(seen)], TIMEOUT_MS, on_done)

            client.send(0, 1, [b"0"], TIMEOUT_MS, on_done)
            await done
            assert seen == [b"%d" % i for i in range(50)]

    run(scenario())


@pytest.mark.parametrize("key", [Node.CLOSE, Node.WRONG])
def test_a_lost_connection_fails_the_request_and_the_next_one_has_a_new_connection(key):
    async def scenario():
        async with connected() as (_, client, server):
            with pytest.raises(ConnectionLost):
                await client.call(key, 1, [b"x"], TIMEOUT_MS)
            assert await client.call(Node.ECHO, 1, [b"y"], TIMEOUT_MS) == b"y"
            assert server.connections_accepted == 2

    run(scenario())


def test_a_request_without_a_response_times_out():
    async def scenario():
        async with connected() as (_, client, server):
            with pytest.raises(RequestTimedOut):
                await client.call(Node.SILENT, 1, [b"x"], 50)
            assert await client.call(Node.ECHO, 1, [b"y"], TIMEOUT_MS) == b"y"
            assert server.connections_accepted == 2

    run(scenario())


def test_a_node_that_is_not_there_yet_is_tried_again():
    async def scenario():
        network = SocketNetwork()
        endpoint = bind(network, "TEST", "127.0.0.1", 0)
        settings = ClientSettings(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2)
        client = NodeClient(network, "127.0.0.1", endpoint.port, os.urandom, settings)
        with pytest.raises(RequestTimedOut):
            await client.call(Node.ECHO, 1, [b"early"], 30)
        call = client.call(Node.ECHO, 1, [b"late"], TIMEOUT_MS)
        server = Server(Node(), Limits(), [endpoint])
        server.start()
        assert await call == b"late"
        client.close()
        await server.drain(1000)

    run(scenario())


def test_one_warning_if_no_connection_can_be_made_for_some_time(monkeypatch, caplog):
    async def scenario():
        network = SocketNetwork()
        endpoint = bind(network, "TEST", "127.0.0.1", 0)  # nobody listens
        settings = ClientSettings(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2)
        client = NodeClient(network, "127.0.0.1", endpoint.port, os.urandom, settings)
        for limit, warnings in ((1000.0, 0), (0.0, 1), (0.0, 1)):
            monkeypatch.setattr(client_module, "FAILING_SECONDS_MAX", limit)
            with pytest.raises(RequestTimedOut):
                await client.call(Node.ECHO, 1, [b""], 30)
            found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
            assert len(found) == warnings
        assert found[0].startswith(f"no connection to 127.0.0.1:{endpoint.port}: ")
        client.close()
        endpoint.listener.close()

    run(scenario())


def test_the_handshake_precedes_requests_on_every_connection():
    def handshake():
        for number in (b"1", b"2"):
            answer = yield 0, 7, [number]
            assert answer == number

    async def scenario():
        async with connected(handshake=handshake) as (node, client, _):
            assert await client.call(Node.ECHO, 1, [b"x"], TIMEOUT_MS) == b"x"
            with pytest.raises(ConnectionLost):
                await client.call(Node.CLOSE, 1, [b"y"], TIMEOUT_MS)
            assert await client.call(Node.ECHO, 1, [b"z"], TIMEOUT_MS) == b"z"
            shake = [(0, 7, b"1"), (0, 7, b"2")]
            rest = [(0, 1, b"x"), (Node.CLOSE, 1, b"y")]
            assert node.requests == [*shake, *rest, *shake, (0, 1, b"z")]

    run(scenario())


@pytest.mark.parametrize("key", [Node.ECHO, Node.CLOSE, Node.SILENT])
def test_a_handshake_that_fails_is_tried_again(key):
    attempts = 0

    def handshake():
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            yield key, 7, [b"refuse"]
            raise HandshakeError("refused")
        yield Node.ECHO, 7, [b"accept"]

    async def scenario():
        settings = ClientSettings(
            reconnect_backoff_ms=1, reconnect_backoff_max_ms=1, connection_setup_timeout_ms=200
        )
        async with connected(handshake=handshake, settings=settings) as (_, client, _):
            assert await client.call(Node.ECHO, 1, [b"x"], TIMEOUT_MS) == b"x"
            assert attempts == 3

    run(scenario())


def test_closing_fails_what_is_under_way():
    async def scenario():
        async with connected() as (_, client, server):
            call = client.call(Node.SILENT, 1, [b"x"], TIMEOUT_MS)
            early = client.call(Node.SILENT, 1, [b"x"], TIMEOUT_MS)
            while not server.connections:
                await asyncio.sleep(0.001)
            client.close()
            client.close()
            for each in (call, early, client.call(Node.ECHO, 1, [b"z"], TIMEOUT_MS)):
                with pytest.raises(ClientClosed):
                    await each

    run(scenario())


def test_a_host_name_that_is_none_fails_requests_as_other_names_do():
    async def scenario():
        settings = ClientSettings(fails_fast=True)
        client = NodeClient(SocketNetwork(), "a" * 64, 1, os.urandom, settings)
        for _ in range(2):
            with pytest.raises(NotConnected):
                await client.call(Node.ECHO, 1, [b"x"], TIMEOUT_MS)
        client.close()

    run(scenario())


# -- sessions that expire ---------------------------------------------------------------------

SASL = 36  # SaslAuthenticate


class Sessions(SocketNetwork):
    """Its sessions must be renewed at once; the token of each is the number of the session."""

    def __init__(self, token_key=SASL) -> None:
        super().__init__()
        self.tokens = 0
        self._token_key = token_key

    async def connect_session(self, host, port, timeout_ms, options):
        return await self.connect(host, port, timeout_ms, options), Session(0, self.renew)

    async def renew(self, ask):
        self.tokens += 1
        token = b"token %d" % self.tokens
        answer = await ask((self._token_key, 2, [token[:3], token[3:]]))
        if answer != token:
            raise ConnectionError("refused")
        return Session(0, self.renew) if self.tokens < 3 else None


def test_a_session_is_renewed_between_requests():
    async def scenario():
        async with connected(Sessions()) as (node, client, server):
            for index in range(5):
                assert await client.call(0, 1, [b"%d" % index], TIMEOUT_MS) == b"%d" % index
            assert server.connections_accepted == 1
            assert [each[2] for each in node.requests] == [
                b"0", b"token 1", b"1", b"token 2", b"2", b"token 3", b"3", b"4",
            ]  # fmt: skip

    run(scenario())


def test_requests_in_flight_get_their_responses_before_the_renewal():
    async def scenario():
        async with connected(Sessions()) as (node, client, _):
            await client.call(0, 1, [b"first"], TIMEOUT_MS)
            calls = [client.call(0, 1, [b"%d" % each], TIMEOUT_MS) for each in range(6)]
            assert await asyncio.gather(*calls) == [b"%d" % each for each in range(6)]
            assert [each[2] for each in node.requests][:3] == [b"first", b"token 1", b"0"]

    run(scenario())


def test_a_connection_that_ends_during_the_renewal_is_replaced():
    async def scenario():
        async with connected(Sessions(token_key=Node.CLOSE)) as (node, client, server):
            for index in range(2):
                assert await client.call(0, 1, [b"%d" % index], TIMEOUT_MS) == b"%d" % index
            assert server.connections_accepted == 2
            assert [each[2] for each in node.requests] == [b"0", b"token 1", b"1"]

    run(scenario())


def test_a_client_is_closed_during_the_renewal():
    async def scenario():
        async with connected(Sessions(token_key=Node.SILENT)) as (node, client, _):
            await client.call(0, 1, [b"x"], TIMEOUT_MS)
            call = client.call(0, 1, [b"y"], TIMEOUT_MS)
            while len(node.requests) < 2:
                await asyncio.sleep(0.001)
            client.close()
            with pytest.raises(ClientClosed):
                await call

    run(scenario())
