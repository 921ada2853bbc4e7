"""A listener with TLS, and both ends of a connection."""

import asyncio
import ssl

import pytest

from odradek.env.network import SocketNetwork, StreamOptions
from odradek.env.tls import TlsTransport


def listening(tls, send_buffer_bytes=4096):
    options = StreamOptions(send_buffer_bytes=send_buffer_bytes, tls=tls)
    listener = SocketNetwork().bind("127.0.0.1", 0, options)
    listener.listen(5)
    return listener


async def accepted(listener):
    future = asyncio.get_running_loop().create_future()
    listener.watch(lambda: future.done() or future.set_result(listener.accept()))
    transport = await future
    listener.unwatch()
    return transport


async def connected(listener, pki):
    """The server's transport, and the client's streams."""
    context = ssl.create_default_context(cafile=pki.ca)
    opening = asyncio.ensure_future(
        asyncio.open_connection(*listener.address, ssl=context, limit=1 << 22)
    )
    transport = await accepted(listener)
    assert isinstance(transport, TlsTransport)
    with pytest.raises(BlockingIOError):
        transport.recv_into(bytearray(1))
    with pytest.raises(BlockingIOError):
        transport.send(b"x")
    return (transport, *await opening)


def run(test):
    asyncio.run(test)
