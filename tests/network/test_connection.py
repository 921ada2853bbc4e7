"""Connections: framing, order of answers, back-pressure, limits."""

import asyncio
import os
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import pytest

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.network import DEFAULT_OPTIONS, Listener, SocketNetwork, StreamOptions, Transport
from odradek.network.connection import Connection
from odradek.network.input import READ_AHEAD_BYTES_MAX
from odradek.network.listeners import ListenError, bind, listen
from odradek.network.output import COPIED_BYTES_PER_TURN
from odradek.network.responses import Slot
from odradek.network.server import ACCEPT_SECONDS, ACCEPTS_PER_TURN, Limits, Server

PRODUCE, OTHER = b"\0\0", b"\0\1"


def frame(payload: bytes, key: bytes = OTHER) -> bytes:
    body = key + b"\0\0" + b"\0\0\0\0" + payload
    return struct.pack(">i", len(body)) + body


def payload_of(view: memoryview) -> bytes:
    return bytes(view[8:])


@asynccontextmanager
async def serving(
    dispatch: Callable[[Connection, memoryview], None],
    limits: Limits | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
) -> AsyncIterator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    endpoint = bind(SocketNetwork(), "TEST", "127.0.0.1", 0, options=options)
    server = Server(dispatch, limits or Limits(), [endpoint])
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=2**25)
    try:
        yield server, reader, writer
    finally:
        writer.close()
        await server.drain(1000)


def echo(connection: Connection, view: memoryview) -> None:
    payload = payload_of(view)
    connection.respond([payload], len(payload))


def run(coroutine):
    asyncio.run(coroutine)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 12, 13, 40])
def test_frames_arrive_whole_however_they_are_cut(cut):
    async def scenario():
        async with serving(echo) as (_, reader, writer):
            stream = b"".join(frame(b"%04d" % i) for i in range(50))
            for start in range(0, len(stream), cut):
                writer.write(stream[start : start + cut])
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.readexactly(200) == b"".join(b"%04d" % i for i in range(50))

    run(scenario())


def test_a_frame_larger_than_every_buffer():
    async def scenario():
        async with serving(echo) as (_, reader, writer):
            payload = os.urandom(5_000_001)
            writer.write(frame(payload) + frame(b"after"))
            assert await reader.readexactly(len(payload) + 5) == payload + b"after"

    run(scenario())


def test_answers_keep_the_order_of_requests():
    slots: list[Slot] = []

    def dispatch(connection, view):
        payload = payload_of(view)
        if payload.startswith(b"late"):
            slots.append(connection.defer(overlap=True))
        else:
            connection.respond([payload], len(payload))

    async def scenario():
        async with serving(dispatch) as (_, reader, writer):
            for payload in (b"late1", b"now-1", b"late2", b"now-2"):
                writer.write(frame(payload, PRODUCE))
            while len(slots) < 2:
                await asyncio.sleep(0.001)
            slots[1].complete([b"LATE2"])
            slots[0].complete([b"LATE1"])
            assert await reader.readexactly(20) == b"LATE1now-1LATE2now-2"

    run(scenario())


def test_only_produce_may_follow_a_deferred_produce():
    slots: list[Slot] = []
    seen: list[bytes] = []

    def dispatch(connection, view):
        payload = payload_of(view)
        seen.append(payload)
        if payload == b"late":
            slots.append(connection.defer(overlap=True))
        else:
            connection.respond([payload], len(payload))

    async def scenario():
        async with serving(dispatch) as (_, reader, writer):
            writer.write(frame(b"late", PRODUCE) + frame(b"next", PRODUCE))
            writer.write(frame(b"wait", OTHER) + frame(b"more", PRODUCE))
            while len(seen) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
            assert seen == [b"late", b"next"]
            slots[0].complete([b"LATE"])
            assert await reader.readexactly(16) == b"LATEnextwaitmore"

    run(scenario())


def test_a_large_produce_passes_a_deferred_one():
    slots: list[Slot] = []
    sizes: list[int] = []

    def dispatch(connection, view):
        sizes.append(len(view))
        slots.append(connection.defer(overlap=True))

    async def scenario():
        async with serving(dispatch) as (_, reader, writer):
            writer.write(frame(b"x", PRODUCE) + frame(bytes(3_000_000), PRODUCE))
            while len(sizes) < 2:
                await asyncio.sleep(0.001)
            for slot, answer in zip(slots, (b"1", b"2"), strict=True):
                slot.complete([answer])
            assert await reader.readexactly(2) == b"12"

    run(scenario())


def test_a_blocked_client_is_read_ahead_only_a_little():
    slots: list[Slot] = []

    def dispatch(connection, view):
        if not slots:
            slots.append(connection.defer())
        else:
            connection.respond([b"."], 1)

    async def scenario():
        async with serving(dispatch) as (server, reader, writer):
            writer.write(frame(b"first"))
            while not slots:
                await asyncio.sleep(0.001)
            writer.write(frame(bytes(1000)) * 3000)
            await asyncio.sleep(0.1)
            assert server.bytes_in <= READ_AHEAD_BYTES_MAX + 100
            slots[0].complete([b"!"])
            assert await reader.readexactly(3001) == b"!" + b"." * 3000

    run(scenario())


def test_a_client_that_does_not_read_holds_up_only_itself():
    def dispatch(connection, view):
        connection.respond([bytes(500_000)], 500_000)

    async def scenario():
        async with serving(dispatch) as (server, reader, writer):
            other_reader, other_writer = await asyncio.open_connection(
                "127.0.0.1", server.endpoints[0].port, limit=2**25
            )
            reader._transport.pause_reading()
            writer.write(frame(b"") * 200)
            await asyncio.sleep(0.05)
            sent = server.bytes_out
            other_writer.write(frame(b""))
            await other_reader.readexactly(500_000)
            assert sent < 50_000_000, "the answers to a client that reads nothing piled up"
            reader._transport.resume_reading()
            for _ in range(200):
                await reader.readexactly(500_000)
            other_writer.close()

    run(scenario())


@pytest.mark.parametrize("is_buffered", [False, True])
def test_file_ranges_leave_between_bytes(is_buffered):
    with tempfile.TemporaryFile() as file:
        content = os.urandom(3_000_000)
        file.write(content)
        file.flush()

        def dispatch(connection, view):
            if is_buffered:
                part = BufferedRange(memoryview(content), 1000, 2_000_000, content)
            else:
                part = FileRange(file.fileno(), 1000, 2_000_000, file)
            connection.respond([b"before", part, b"after"], 2_000_011)

        async def scenario():
            async with serving(dispatch) as (_, reader, writer):
                writer.write(frame(b"") * 3)
                expected = b"before" + content[1000:2_001_000] + b"after"
                for _ in range(3):
                    assert await reader.readexactly(len(expected)) == expected

        run(scenario())


def test_a_turn_copies_only_so_much():
    memory = memoryview(bytes(3_000_000))

    def dispatch(connection, view):
        parts = [BufferedRange(memory, 0, 150_000, memory) for _ in range(10)]
        connection.respond([*parts, BufferedRange(memory, 0, 3_000_000, memory)], 4_500_000)

    async def scenario():
        async with serving(dispatch, options=StreamOptions(send_buffer_bytes=2**22)) as (
            server,
            reader,
            writer,
        ):
            received = asyncio.create_task(reader.readexactly(4_500_000))
            writer.write(frame(b""))
            steps = []
            while not received.done():
                before = server.bytes_out
                await asyncio.sleep(0)
                steps.append(server.bytes_out - before)
            assert sum(steps) == 4_500_000
            # A step of this task may see the end of one turn and the beginning of the next.
            assert max(steps) <= 2 * COPIED_BYTES_PER_TURN

    run(scenario())


@pytest.mark.parametrize("size", [-1, 0, 7, 100_000_001, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(size):
    async def scenario():
        async with serving(echo, Limits(request_bytes_max=100_000_000)) as (server, reader, writer):
            writer.write(frame(b"good") + struct.pack(">i", size) + b"x" * 10)
            assert await reader.read() == b"good"
            assert server.frames_refused == 1

    run(scenario())


def test_a_lying_length_costs_only_the_bytes_that_came():
    async def scenario():
        async with serving(echo) as (server, reader, writer):
            writer.write(struct.pack(">i", 99_000_000) + bytes(100))
            await asyncio.sleep(0.05)
            (connection,) = server.connections
            assert len(connection._input.memory) <= 4 * 104
            writer.write_eof()
            assert await reader.read() == b""

    run(scenario())


def test_muted_connections_wait():
    def dispatch(connection, view):
        connection.respond([b"."], 1)
        connection.mute(80)

    async def scenario():
        async with serving(dispatch) as (server, reader, writer):
            loop = asyncio.get_running_loop()
            started = loop.time()
            writer.write(frame(b"") * 3)
            await reader.readexactly(3)
            assert loop.time() - started >= 0.15

    run(scenario())


def test_limits_on_connections():
    async def scenario():
        async with serving(echo, Limits(connections_per_ip_max=2)) as (server, reader, writer):
            port = server.endpoints[0].port
            second = await asyncio.open_connection("127.0.0.1", port)
            third = await asyncio.open_connection("127.0.0.1", port)
            assert await third[0].read() == b""
            assert server.connections_refused == 1
            second[1].close()
            third[1].close()
            while len(server.connections) > 1:
                await asyncio.sleep(0.001)
            fourth = await asyncio.open_connection("127.0.0.1", port)
            fourth[1].write(frame(b"hello"))
            assert await fourth[0].readexactly(5) == b"hello"
            fourth[1].close()

    run(scenario())


class _Clock(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still unless the test moves it."""

    passed = 0.0

    def time(self) -> float:
        return self.passed


class _SlowListener:
    """Accepting a connection takes as long as `seconds` says, by the clock of `_Clock`."""

    def __init__(self, listener: Listener, loop: _Clock) -> None:
        self._listener = listener
        self._loop = loop
        self.seconds = 0.0

    def accept(self) -> Transport:
        self._loop.passed += self.seconds
        return self._listener.accept()

    def close(self) -> None:
        self._listener.close()


def test_an_iteration_accepts_only_a_few_and_only_for_a_short_time():
    loop = _Clock()

    async def scenario():
        endpoint = bind(SocketNetwork(), "TEST", "127.0.0.1", 0)
        endpoint.listener.listen(200)
        slow = endpoint.listener = _SlowListener(endpoint.listener, loop)
        server = Server(echo, Limits(), [endpoint])
        count = ACCEPTS_PER_TURN + 5
        clients = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(count)]
        accepted = []
        for seconds in (2 * ACCEPT_SECONDS, 0.75 * ACCEPT_SECONDS, 0, 0):
            slow.seconds = seconds
            server._accept(endpoint)
            accepted.append(len(server.connections))
        assert accepted == [1, 3, 3 + ACCEPTS_PER_TURN, count]
        for each in clients:
            each.close()
        await server.drain(0)

    with closing(loop):
        loop.run_until_complete(scenario())


def test_idle_connections_are_closed_busy_ones_not():
    slots: list[Slot] = []

    def dispatch(connection, view):
        slots.append(connection.defer())

    async def scenario():
        async with serving(dispatch, Limits(idle_ms=80)) as (server, reader, writer):
            idle = await asyncio.open_connection("127.0.0.1", server.endpoints[0].port)
            writer.write(frame(b""))
            assert await idle[0].read() == b""
            await asyncio.sleep(0.1)
            slots[0].complete([b"late"])
            assert await reader.readexactly(4) == b"late"
            idle[1].close()

    run(scenario())


def test_a_port_in_use_says_what_to_do():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ListenError, match="choose another with --port"),
    ):
        bind(SocketNetwork(), "TEST", "127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the second cannot reserve it")
def test_the_second_of_two_that_reserved_a_port_cannot_listen():
    first = bind(SocketNetwork(), "TEST", "127.0.0.1", 0)
    second = bind(SocketNetwork(), "TEST", "127.0.0.1", first.port)  # nobody listens yet
    with closing(first.listener), closing(second.listener):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port))
        listen(first, 1)
        with pytest.raises(ListenError, match="choose another with --port"):
            listen(second, 1)


def test_draining_does_not_wait_for_clients_that_ask_again_and_again():
    """A consumer's next fetch comes at once, and would wait for records."""

    async def scenario():
        slots = []

        def answer_later(connection: Connection, view: memoryview) -> None:
            slots.append(connection.defer())

        async with serving(answer_later) as (server, reader, writer):
            writer.write(frame(b"first"))
            while not slots:
                await asyncio.sleep(0.001)
            draining = asyncio.ensure_future(server.drain(60_000))
            await asyncio.sleep(0)
            slots[0].complete([b"answer"])
            writer.write(frame(b"next"))
            await draining
            assert await reader.readexactly(6) == b"answer"
            assert len(slots) == 1

    run(scenario())
