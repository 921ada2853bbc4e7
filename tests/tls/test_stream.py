"""`TlsStream`: how the bytes of a connection are received and sent."""

import asyncio
import contextlib
import os
import random
import socket
import struct

import pytest
from tests.support.run_seed import seeds
from tests.tls.transports import connected, listening, run

from odradek.env.file_range import FileRange
from odradek.env.tls_files import ServerTls
from odradek.env.tls_stream import UNASKED_MAX
from odradek.network.output import Output


def test_requests_that_come_alone_or_together(pki):
    """After a request that came alone, OpenSSL is not asked for more; nothing is left behind."""

    def request(size):
        return struct.pack(">i", size) + os.urandom(size)

    async def test():
        listener = listening(ServerTls(pki.server))
        transport, _, writer = await connected(listener, pki)
        while transport._state.value != "open":
            await asyncio.sleep(0.001)
        stream = transport._stream
        read, calls = stream._read, 0

        def counted(size, view):
            nonlocal calls
            calls += 1
            return read(size, view)

        stream._read = counted
        buffer = bytearray(100_000)
        received, arrived = bytearray(), asyncio.Event()

        def receive():
            with contextlib.suppress(BlockingIOError):
                received.extend(buffer[: transport.recv_into(buffer)])
            arrived.set()

        async def exchange(*sent):
            """Send records; return how often OpenSSL was called until all have arrived."""
            nonlocal calls
            calls = 0
            received.clear()
            for each in sent:
                writer.write(each)
            while len(received) < len(b"".join(sent)):
                await arrived.wait()
                arrived.clear()
            assert received == b"".join(sent)
            return calls

        transport.watch_readable(receive)
        assert await exchange(request(100)) == 2
        assert [await exchange(request(100)) for _ in range(UNASKED_MAX + 2)] == [
            *[1] * UNASKED_MAX, 2, 1
        ]  # fmt: skip
        for _ in range(3):
            await exchange(*[request(size) for size in (100, 0, 5000, 40_000, 8)])
            await exchange(request(10)[:7], b"rest")
            await exchange(b"1", b"", b"\xff\xff\xff\xff", b"\0\0\0\0", b"ends")
            await exchange(request(100) + request(200), request(300))
        transport.close()
        writer.close()
        listener.close()

    run(test())


def test_the_parts_of_a_response_fill_records(pki, tmp_path):
    file = tmp_path / "records"
    file.write_bytes(os.urandom(300_000))

    async def test():
        listener = listening(ServerTls(pki.server), send_buffer_bytes=1_000_000)
        transport, reader, writer = await connected(listener, pki)
        while transport._state.value != "open":
            await asyncio.sleep(0.001)
        descriptor, write, calls = os.open(file, os.O_RDONLY), transport._stream._write, []

        def counted(view):
            calls.append(len(view))
            return write(view)

        transport._stream._write = counted
        for length, expected in (
            (1000, [1010]),
            (16_000, [16_010]),
            (20_000, [16_384, 3626]),
            (64 * 1024, [65_536, 10]),
            (150_000, [65_536, 65_536, 16_384, 2554]),
        ):
            assert transport.send_parts([b"he", b"ad"], True) == 4
            part = FileRange(descriptor, 0, length, None)
            while part.length:
                part.advance(transport.send_file(part, True))
            assert transport.send(b"a tail") == 6
            sent = b"head" + file.read_bytes()[:length] + b"a tail"
            assert await reader.readexactly(len(sent)) == sent
            assert calls == expected
            calls.clear()
        os.close(descriptor)
        writer.close()
        transport.close()
        listener.close()

    run(test())


@pytest.mark.parametrize("seed", seeds(3))
def test_any_parts_arrive_in_order(pki, tmp_path, seed):
    """The reader is sometimes slow, and the sizes are often near those of records and calls."""
    draw = random.Random(seed)
    file = tmp_path / "records"
    file.write_bytes(draw.randbytes(600_000))

    def length():
        near = draw.choice((0, 16_384, 65_536, 262_144))
        return (
            max(1, near + draw.randint(-20, 20))
            if draw.random() < 0.7
            else draw.randint(1, 300_000)
        )

    async def test():
        listener = listening(ServerTls(pki.server))
        transport, reader, writer = await connected(listener, pki)
        descriptor = os.open(file, os.O_RDONLY)
        parts, expected = [], bytearray()
        for _ in range(60):
            size, begin = length(), draw.randint(0, 1000)
            if draw.random() < 0.5:
                parts.append(FileRange(descriptor, begin, size, None))
                expected += file.read_bytes()[begin : begin + size]
            else:
                parts.append(draw.randbytes(size))
                expected += parts[-1]
        output = Output(transport)
        for part in parts:
            output.queue([part], len(part))

        def send():
            if output.send():
                transport.unwatch_writable()

        transport.watch_writable(send)
        received = bytearray()
        while len(received) < len(expected):
            if draw.random() < 0.3:
                await asyncio.sleep(0.002)
            received += await reader.read(draw.choice((1_000, 30_000, 500_000)))
        assert received == expected
        assert not output.parts
        os.close(descriptor)
        writer.close()
        transport.close()
        listener.close()

    run(test())


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="an option of Linux")
def test_no_packet_waits_at_the_end_of_a_response(pki, tmp_path):
    file = tmp_path / "records"
    file.write_bytes(bytes(5_000_000))

    async def test():
        listener = listening(ServerTls(pki.server))
        transport, reader, writer = await connected(listener, pki)
        transport.watch_writable(lambda: None)
        descriptor = os.open(file, os.O_RDONLY)

        def waits():
            copy = socket.socket(fileno=os.dup(transport._descriptor))
            with copy:
                return bool(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK))

        while transport._state.value != "open":
            await asyncio.sleep(0.001)
        assert transport.send(b"alone") == 5
        assert not waits()
        assert transport.send_parts([b"head"], True) == 4
        assert transport.send_file(FileRange(descriptor, 0, 20_000, None), True) == 20_000
        assert waits()
        assert transport.send(b"tail") == 4
        assert not waits()
        assert transport.send_file(FileRange(descriptor, 0, 1000, None)) == 1000
        assert not waits()
        with pytest.raises(BlockingIOError):  # noqa: PT012
            while True:
                transport.send_file(FileRange(descriptor, 0, 5_000_000, None), True)
        assert not waits()
        os.close(descriptor)
        writer.close()
        transport.close()
        listener.close()

    run(test())
