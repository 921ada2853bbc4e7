"""`TlsTransport`, and the files of keys and certificates."""

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import threading
import weakref

import pytest
from tests.tls.transports import accepted, connected, listening, run

from odradek.env.file_range import FileRange
from odradek.env.tls import HANDSHAKE_THREADS
from odradek.env.tls_context import make_context
from odradek.env.tls_files import ClientAuth, ServerTls, TlsError


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_decrypted_bytes_in_memory_are_readable(pki, size):
    async def test():
        listener = listening(ServerTls(pki.server))
        transport, _, writer = await connected(listener, pki)
        sent = os.urandom(40_000)
        received, buffer = bytearray(), bytearray(size)
        done = asyncio.Event()

        def receive():
            count = transport.recv_into(buffer)
            received.extend(buffer[:count])
            if len(received) == len(sent):
                done.set()

        writer.write(sent)
        await writer.drain()
        transport.watch_readable(receive)
        await done.wait()
        assert received == sent
        with pytest.raises(BlockingIOError):
            transport.recv_into(buffer)
        writer.close()
        end = asyncio.Event()
        transport.watch_readable(lambda: end.set() if not transport.recv_into(buffer) else None)
        await end.wait()
        transport.close()
        transport.close()
        listener.close()

    run(test())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_slow_reader_gets_all_bytes_in_order(pki, tmp_path, version):
    file = tmp_path / "records"
    file.write_bytes(os.urandom(1_000_000))

    async def test():
        listener = listening(ServerTls(pki.server, versions=(version,)))
        transport, reader, writer = await connected(listener, pki)
        head, tail = [os.urandom(50_000), b"x", os.urandom(70_000)], os.urandom(300_000)
        expected = b"".join(head) + file.read_bytes()[10:900_010] + tail
        descriptor = os.open(file, os.O_RDONLY)
        part = FileRange(descriptor, 10, 900_000, None)
        left = b"".join(head)
        rest = tail
        done = asyncio.Event()
        refused = 0

        def send():
            nonlocal left, rest, refused
            try:
                while left:
                    middle = len(left) // 2
                    left = left[transport.send_parts([left[:middle], left[middle:]], True) :]
                while part.length:
                    part.advance(transport.send_file(part, True))
                while rest:
                    rest = rest[transport.send(rest) :]
            except BlockingIOError:
                refused += 1
                return
            transport.unwatch_writable()
            done.set()

        transport.watch_writable(send)
        received = bytearray()
        while len(received) < len(expected):
            await asyncio.sleep(0.001)
            received += await reader.read(30_000)
        await done.wait()
        assert received == expected
        assert refused
        os.close(descriptor)
        transport.close()
        assert await reader.read(1) == b""
        writer.close()
        listener.close()

    run(test())


def test_connections_share_a_buffer_for_files(pki, tmp_path):
    async def serve(listener, content):
        """Send a file to a slow reader; return what the reader has received."""
        transport, reader, writer = await connected(listener, pki)
        file = tmp_path / content[:8].hex()
        file.write_bytes(content)
        descriptor = os.open(file, os.O_RDONLY)
        part = FileRange(descriptor, 0, len(content), None)

        def send():
            with contextlib.suppress(BlockingIOError):
                part.advance(transport.send_file(part))
            if not part.length:
                transport.unwatch_writable()

        transport.watch_writable(send)
        received = bytearray()
        while len(received) < len(content):
            await asyncio.sleep(0.001)
            received += await reader.read(30_000)
        os.close(descriptor)
        transport.close()
        writer.close()
        return received

    async def test():
        contents = [os.urandom(600_000) for _ in range(4)]
        listeners = [listening(ServerTls(pki.server)) for _ in contents]
        assert await asyncio.gather(*map(serve, listeners, contents)) == contents
        for listener in listeners:
            listener.close()

    run(test())


@pytest.mark.parametrize(
    ("sent", "threads"),
    [
        (b"this is no TLS at all, but long enough", 0),
        (b"\x80\x2e\x01\x03\x03 a ClientHello of SSL 2", 0),
        (b"\x16\x99\x99 a record of an unknown version", 1),
    ],
)
def test_a_failed_handshake_is_reported_by_the_callback(pki, sent, threads):
    async def test():
        listener = listening(ServerTls(pki.server))
        reader, writer = await asyncio.open_connection(*listener.address)
        transport = await accepted(listener)
        failed = asyncio.get_running_loop().create_future()

        def receive():
            try:
                transport.recv_into(bytearray(10))
            except OSError as error:
                failed.set_result(error)

        transport.watch_readable(receive)
        writer.write(sent)
        assert isinstance(await failed, ssl.SSLError)
        assert transport.handshake_refusal
        assert len(listener._handshakes._threads) == threads
        transport.close()
        # The client is told that it should use TLS: a fatal alert, protocol_version.
        assert await reader.read(100) == b"\x15\x03\x03\0\x02\x02\x46"
        writer.close()
        listener.close()

    run(test())


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00 a part of a hello"])
def test_a_client_that_leaves_during_the_handshake(pki, sent):
    """No thread is needed to find that out. Nothing but the garbage collector could free a transport
    whose error refers to it."""

    async def test():
        listener = listening(ServerTls(pki.server))
        with socket.create_connection(listener.address) as client:
            transport = await accepted(listener)
            client.sendall(sent)
            if sent:
                while not listener._handshakes._threads or transport._is_stepping:
                    await asyncio.sleep(0.001)
            assert (transport._connected is None) == bool(sent), (
                "OpenSSL's object is made too early"
            )
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        transport.watch_readable(lambda: ended.done() or ended.set_result(None))
        await ended
        with pytest.raises(ConnectionResetError):
            transport.recv_into(bytearray(1))
        assert transport.handshake_refusal is None
        transport.close()
        assert transport.handshake_refusal is None
        assert bool(listener._handshakes._threads) == bool(sent)
        listener.close()
        return weakref.ref(transport), listener._handshakes

    gc.collect()
    gc.disable()
    try:
        left, handshakes = asyncio.run(test())
        handshakes.shutdown()  # until its threads have ended, they may refer to the transport
        assert left() is None
    finally:
        gc.enable()


def test_a_descriptor_that_was_lost_may_be_that_of_another_connection(pki, monkeypatch):
    """`wrap_socket` closes it if the peer has disconnected after its first bytes."""

    def lose(context, connected, **named):
        os.close(connected.detach())
        raise ssl.SSLError(1, "Closed before TLS handshake with data in recv buffer.")

    async def test():
        loop = asyncio.get_running_loop()
        listener = listening(ServerTls(pki.server))
        with socket.create_connection(listener.address) as client:
            transport = await accepted(listener)
            lost = transport._descriptor
            monkeypatch.setattr(ssl.SSLContext, "wrap_socket", lose)
            failed = loop.create_future()
            transport.watch_readable(lambda: failed.set_result(None))
            client.sendall(b"\x16 hello")
            await failed
        with pytest.raises(ConnectionResetError):
            transport.recv_into(bytearray(1))
        near, far = socket.socketpair()
        if far.fileno() == lost:
            near, far = far, near
        elif near.fileno() != lost:
            os.dup2(near.fileno(), lost)
        ready = loop.create_future()
        loop.add_reader(lost, lambda: ready.done() or ready.set_result(None))
        transport.close()
        far.send(b"x")
        await asyncio.wait_for(ready, 10)
        loop.remove_reader(lost)
        if near.fileno() != lost:
            os.close(lost)
        near.close()
        far.close()
        listener.close()

    run(test())


def test_a_transport_may_be_closed_during_the_handshake(pki):
    async def test():
        listener = listening(ServerTls(pki.server))
        for count in range(5):
            opening = asyncio.ensure_future(
                asyncio.open_connection(*listener.address, ssl=ssl.create_default_context())
            )
            transport = await accepted(listener)
            transport.watch_readable(pytest.fail)
            for _ in range(count):
                await asyncio.sleep(0)
            transport.close()
            with pytest.raises(OSError):  # noqa: PT011
                await opening
        listener.close()

    run(test())


def test_a_socket_is_closed_if_the_loop_ends_during_the_handshake(pki):
    may_step = threading.Event()

    async def test():
        listener = listening(ServerTls(pki.server))
        for _ in range(HANDSHAKE_THREADS):
            listener._handshakes.submit(may_step.wait)
        with socket.create_connection(listener.address) as client:
            transport = await accepted(listener)
            client.sendall(b"\x16\x03\x01\x02\x00 a part of a hello")
            while not transport._is_stepping:
                await asyncio.sleep(0.001)
        transport.close()
        listener.close()
        return transport, listener._handshakes

    transport, handshakes = asyncio.run(test())
    assert transport._socket.fileno() != -1, "the thread still uses it"
    may_step.set()
    handshakes.shutdown()
    assert transport._socket.fileno() == -1


def test_the_end_is_noticed_if_the_socket_stays_open(pki):
    async def test():
        listener = listening(ServerTls(pki.server))

        def client():
            made = socket.create_connection(tuple(listener.address), 20)
            made = ssl.create_default_context(cafile=pki.ca).wrap_socket(
                made, server_hostname="127.0.0.1"
            )
            made.sendall(b"last words")
            made.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                made.unwrap()
            return made

        making = asyncio.ensure_future(asyncio.to_thread(client))
        transport = await accepted(listener)
        received = []
        ended = asyncio.Event()

        def receive():
            buffer = bytearray(100)
            count = transport.recv_into(buffer)
            received.append(bytes(buffer[:count]))
            if not count:
                transport.unwatch_readable()
                ended.set()

        made = await making
        await asyncio.sleep(0.05)  # both records have arrived
        transport.watch_readable(receive)
        await ended.wait()
        assert b"".join(received) == b"last words"
        transport.close()
        made.close()
        listener.close()

    run(test())


@pytest.mark.parametrize("with_inner", [True, False])
def test_a_client_that_ends_without_an_alert(pki, monkeypatch, with_inner):
    """As if it had crashed. The methods of `SSLSocket` are used if there is no object inside."""
    if not with_inner:
        monkeypatch.setattr(
            "odradek.env.tls_stream._reader_and_writer",
            lambda encrypted: (encrypted.read, encrypted.write),
        )

    async def test():
        listener = listening(ServerTls(pki.server))
        transport, _, writer = await connected(listener, pki)
        ended = asyncio.Event()
        received = bytearray()

        def receive():
            buffer = bytearray(100)
            count = transport.recv_into(buffer)
            received.extend(buffer[:count])
            if not count:
                transport.unwatch_readable()
                ended.set()

        writer.write(b"last words")
        await writer.drain()
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        transport.watch_readable(receive)
        await ended.wait()
        assert received == b"last words"
        transport.close()
        writer.transport.abort()
        listener.close()

    run(test())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"key_file": "/no/such/file"}, "cannot use the key and the certificate in /no/such/file"),
        ({"key_file": __file__}, "cannot use the key and the certificate"),
        ({"key_password": "wrong"}, "cannot use the key and the certificate"),
        ({"key_password": ""}, "cannot use the key and the certificate"),
        ({"trust_file": __file__}, "cannot use the certificates"),
        ({"versions": ("TLSv1.1",)}, "TLSv1.1 is not one of"),
    ],
)
def test_files_that_cannot_be_used(pki, changes, problem):
    settings = {"key_file": pki.locked, "key_password": "key-secret", **changes}
    with pytest.raises(TlsError, match=problem):
        make_context(ServerTls(**settings))


def test_a_key_with_a_password(pki):
    tls = ServerTls(pki.locked, "key-secret", pki.ca, ClientAuth.REQUIRED, ("TLSv1.3",))
    assert "key-secret" not in repr(tls)
    assert make_context(tls).verify_mode is ssl.CERT_REQUIRED
