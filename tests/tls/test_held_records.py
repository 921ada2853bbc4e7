"""No byte that OpenSSL holds waits for another byte from the client."""

import asyncio
import os
import socket
import ssl

import pytest

from odradek.env.network import SocketNetwork, StreamOptions
from odradek.env.tls_files import ServerTls


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("size", [1, 7, 500, 16_384])
def test_held_records_are_received_without_further_bytes(pki, version, size):
    """The client sends many records at once and then nothing. The callback is replaced and removed, and
    each call receives a part that ends at the end of a record or within it."""
    records = [os.urandom(500) for _ in range(20)] + [os.urandom(16_384) for _ in range(4)]
    expected = b"".join(records)

    async def test():
        loop = asyncio.get_running_loop()
        tls = ServerTls(pki.server, versions=(version,))
        listener = SocketNetwork().bind("127.0.0.1", 0, StreamOptions(tls=tls))
        listener.listen(1)
        coming = loop.create_future()
        listener.watch(lambda: coming.done() or coming.set_result(listener.accept()))

        def send():
            context = ssl.create_default_context(cafile=pki.ca)
            connection = socket.create_connection(listener.address)
            client = context.wrap_socket(connection, server_hostname="localhost")
            for record in records:
                client.send(record)
            return client

        sending = loop.run_in_executor(None, send)
        transport = await coming
        listener.unwatch()
        received, buffer = bytearray(), bytearray(size)
        done = loop.create_future()
        calls = 0

        def receive():
            nonlocal calls
            calls += 1
            try:
                count = transport.recv_into(buffer)
            except BlockingIOError:
                return
            received.extend(memoryview(buffer)[:count])
            if len(received) == len(expected):
                done.set_result(None)
            elif calls % 3 == 0:
                transport.unwatch_readable()
                loop.call_soon(transport.watch_readable, receive)

        client = await sending  # all is sent
        transport.watch_readable(receive)
        await asyncio.wait_for(done, 60)
        assert received == expected
        transport.close()
        client.close()
        listener.close()

    asyncio.run(test())
