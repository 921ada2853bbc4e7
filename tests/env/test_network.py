"""Transports and listeners of system sockets fulfil the interfaces of `odradek.env.network`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from odradek.env import congestion_control
from odradek.env import network as env_network
from odradek.env.file_range import FileRange
from odradek.env.network import Network, SocketNetwork, StreamOptions, Transport


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 20))


async def ready(watch: Callable[[Callable[[], object]], None], unwatch: Callable[[], None]) -> None:
    """Wait for one call of a watched callback."""
    event = asyncio.Event()
    watch(event.set)
    await event.wait()
    unwatch()


async def receive(transport: Transport, count: int) -> bytes:
    data = bytearray()
    buffer = bytearray(65536)
    while len(data) < count:
        try:
            got = transport.recv_into(memoryview(buffer)[: count - len(data)])
        except BlockingIOError:
            await ready(transport.watch_readable, transport.unwatch_readable)
            continue
        assert got, "the stream ended early"
        data += buffer[:got]
    return bytes(data)


async def send_all(transport: Transport, take: Callable[[int], int], count: int) -> None:
    """Call `take` with what was taken so far until it is `count`."""
    taken = 0
    while taken < count:
        try:
            taken += take(taken)
        except BlockingIOError:
            await ready(transport.watch_writable, transport.unwatch_writable)


@asynccontextmanager
async def connected(
    network: Network | None = None, options: StreamOptions | None = None
) -> AsyncIterator[tuple[Transport, Transport]]:
    """Two ends of a connection: the outgoing one and the accepted one."""
    network = network or SocketNetwork()
    options = options or StreamOptions()
    listener = network.bind("127.0.0.1", 0, options)
    listener.listen(5)
    ours = await network.connect("127.0.0.1", listener.address.port, 5000, options)
    await ready(listener.watch, listener.unwatch)
    theirs = listener.accept()
    try:
        yield ours, theirs
    finally:
        ours.close()
        theirs.close()
        listener.close()


def test_addresses_of_both_ends():
    async def scenario():
        async with connected() as (ours, theirs):
            assert ours.local_address == theirs.peer_address
            assert ours.peer_address == theirs.local_address
            assert ours.peer_address.host == "127.0.0.1"

    run(scenario())


def reached(host, one_protocol=False):
    """Which of the two loopback addresses a listener on a host accepts.

    The ports of the other addresses are kept, so no other process of the machine listens there.
    """
    for _ in range(20):
        listener = SocketNetwork().bind(host, 0, StreamOptions(one_protocol=one_protocol))
        listener.listen(5)
        port = listener.address.port
        try:
            with contextlib.ExitStack() as opened:
                if one_protocol and not keeps_the_other(opened, host, port):
                    continue
                return {each for each in ("127.0.0.1", "::1") if connects(opened, (each, port))}
        finally:
            listener.close()
    pytest.fail("no port was free for both protocols")


def keeps_the_other(opened, host, port):
    """Whether the port of the other protocol could be taken, by a socket that does not listen."""
    family, address = (socket.AF_INET, "127.0.0.1") if host == "::" else (socket.AF_INET6, "::1")
    holder = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
    try:
        holder.bind((address, port))
    except OSError:
        return False
    return True


def connects(opened, address):
    try:
        opened.enter_context(socket.create_connection(address, 5))
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"])
def test_each_notation_of_all_addresses_means_both_protocols(host):
    assert reached(host) == {"127.0.0.1", "::1"}


@pytest.mark.parametrize(("host", "expected"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
def test_two_listeners_may_divide_a_port(host, expected):
    assert reached(host, one_protocol=True) == {expected}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_other_addresses_mean_themselves(host):
    assert reached(host) == {host}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_an_ipv4_client_of_all_addresses_has_its_ipv4_address(host):
    async def scenario():
        network = SocketNetwork()
        listener = network.bind(host, 0)
        listener.listen(5)
        ours = await network.connect("127.0.0.1", listener.address.port, 5000)
        await ready(listener.watch, listener.unwatch)
        theirs = listener.accept()
        assert theirs.peer_address == ours.local_address
        assert theirs.local_address.host == "127.0.0.1"
        for each in (ours, theirs, listener):
            each.close()

    run(scenario())


def test_nothing_to_receive_or_accept_raises_and_the_end_is_zero():
    async def scenario():
        listener = SocketNetwork().bind("127.0.0.1", 0)
        listener.listen(5)
        with pytest.raises(BlockingIOError):
            listener.accept()
        listener.close()
        async with connected() as (ours, theirs):
            with pytest.raises(BlockingIOError):
                ours.recv_into(bytearray(10))
            theirs.send(b"last")
            theirs.close()
            assert await receive(ours, 4) == b"last"
            await ready(ours.watch_readable, ours.unwatch_readable)
            assert ours.recv_into(bytearray(10)) == 0

    run(scenario())


def test_a_full_connection_takes_nothing_and_says_when_it_does_again():
    async def scenario():
        async with connected(options=StreamOptions(8192, 8192)) as (ours, theirs):
            payload = os.urandom(3_000_000)
            sending = asyncio.ensure_future(
                send_all(ours, lambda taken: ours.send(payload[taken:]), len(payload))
            )
            for _ in range(50):
                await asyncio.sleep(0)
            assert not sending.done()
            assert await receive(theirs, len(payload)) == payload
            await sending

    run(scenario())


@pytest.mark.parametrize("sizes", [(10, 20, 30), (40_000, 1, 300_000), (7,) * 3000])
def test_parts_leave_in_order(sizes):
    async def scenario():
        async with connected() as (ours, theirs):
            whole = os.urandom(sum(sizes))
            ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
            parts = [memoryview(whole)[start:end] for start, end in pairwise(ends)]

            def take(taken: int) -> int:
                rest = [
                    part[max(0, taken - start) :]
                    for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True)
                    if end > taken
                ]
                return ours.send_parts(rest, True)

            sending = asyncio.ensure_future(send_all(ours, take, len(whole)))
            received = await receive(theirs, len(whole))
            await sending
            assert received == whole

    run(scenario())


def _without_sendfile(*arguments: int) -> int:
    raise OSError(95, "not supported")


@pytest.mark.parametrize("sendfile", [env_network._sendfile, None, _without_sendfile])
def test_a_file_is_sent_where_there_is_sendfile_and_where_not(sendfile, monkeypatch):
    monkeypatch.setattr(env_network, "_sendfile", sendfile)
    with tempfile.TemporaryFile() as file:
        content = os.urandom(1_000_000)
        file.write(content)
        file.flush()

        async def scenario():
            async with connected() as (ours, theirs):

                def take(taken: int) -> int:
                    part = FileRange(file.fileno(), 1000 + taken, 900_000 - taken, file)
                    count = ours.send_file(part)
                    assert (part.position, part.length) == (1000 + taken, 900_000 - taken)
                    return count

                sending = asyncio.ensure_future(send_all(ours, take, 900_000))
                assert await receive(theirs, 900_000) == content[1000:901_000]
                await sending
                assert ours.send_file(FileRange(file.fileno(), 1_000_000, 10, file)) == 0

        run(scenario())


def test_watched_callbacks_are_called_as_long_as_bytes_wait():
    async def scenario():
        async with connected() as (ours, theirs):
            theirs.send(b"abc")
            calls = 0
            seen = asyncio.Event()

            def on_readable() -> None:
                nonlocal calls
                calls += 1
                if calls == 3:
                    seen.set()

            ours.watch_readable(on_readable)
            await seen.wait()
            ours.unwatch_readable()
            ours.unwatch_readable()
            for _ in range(3):
                await asyncio.sleep(0)
            assert calls == 3

    run(scenario())


def test_a_closed_transport_makes_no_callbacks_and_may_be_closed_again():
    async def scenario():
        async with connected() as (ours, theirs):
            called: list[str] = []
            ours.watch_readable(lambda: called.append("readable"))
            ours.watch_writable(lambda: called.append("writable"))
            theirs.send(b"abc")
            ours.close()
            ours.close()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not called
            with pytest.raises(OSError, match="Bad file descriptor"):
                ours.send(b"x")

    run(scenario())


def test_a_refused_connection_raises():
    async def scenario():
        network = SocketNetwork()
        listener = network.bind("127.0.0.1", 0)  # nobody listens
        with pytest.raises(ConnectionRefusedError):
            await network.connect("127.0.0.1", listener.address.port, 5000)
        listener.close()

    run(scenario())


def test_every_address_of_a_host_is_tried():
    async def scenario():
        network = SocketNetwork()
        closed = network.bind("127.0.0.1", 0)
        listener = network.bind("127.0.0.1", 0)
        listener.listen(5)

        async def two(host: str, port: int):
            addresses = [("127.0.0.1", each.address.port) for each in (closed, listener)]
            return [(socket.AF_INET, address) for address in addresses]

        transport = await SocketNetwork(two).connect("broker.example", 9092, 5000)
        assert transport.peer_address == listener.address
        for each in (transport, listener, closed):
            each.close()

    run(scenario())


def test_a_connection_that_nobody_answers_times_out():
    async def never(host: str, port: int):
        await asyncio.get_running_loop().create_future()

    async def scenario():
        with pytest.raises(TimeoutError):
            await SocketNetwork(never).connect("broker.example", 9092, 10)

    run(scenario())


def test_an_address_that_is_taken_cannot_be_listened_at():
    async def scenario():
        network = SocketNetwork()
        first = network.bind("127.0.0.1", 0)
        first.listen(1)
        with pytest.raises(OSError, match="in use"):
            network.bind("127.0.0.1", first.address.port).listen(1)
        first.close()
        first.close()

    run(scenario())


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="Linux only")
@pytest.mark.parametrize(("client", "is_local"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_only_connections_on_the_same_host_lose_pacing(client, is_local, monkeypatch):
    """Two addresses stand for two hosts. The system's default plays the part of BBR."""

    def named(made: socket.socket) -> bytes:
        return made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")

    with socket.socket() as any_socket:
        default = named(any_socket)
    monkeypatch.setattr(congestion_control, "_PACING", frozenset({default}))

    async def scenario():
        listener = SocketNetwork().bind("127.0.0.1", 0)
        listener.listen(1)
        with socket.socket() as other:
            other.bind((client, 0))
            other.connect(tuple(listener.address))
            await ready(listener.watch, listener.unwatch)
            accepted = listener.accept()
            assert named(accepted._socket) == (b"reno" if is_local else default)
            accepted.close()
        listener.close()

    run(scenario())


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="Linux only")
def test_congestion_control_that_does_not_pace_is_kept(monkeypatch):
    monkeypatch.setattr(congestion_control, "_PACING", frozenset())
    with socket.socket() as made:
        before = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert congestion_control.avoid_pacing(made) is None
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) == before
