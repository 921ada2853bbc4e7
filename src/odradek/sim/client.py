"""A client of Kafka's protocol on a simulated network: one request at a time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import TypeVar

from odradek.env.network import Address, Buffer, Transport
from odradek.sim.network import SimHost
from odradek.sim.world import World
from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import Message, skip_tagged_fields

TIMEOUT_MS = 4_000
_RECEIVE_BYTES = 1 << 16
_length = struct.Struct(">i")

ResponseT = TypeVar("ResponseT", bound=Message)


class Client:
    """Sends requests to one address, over a connection that it opens when there is none.

    Every request and every response is noted in the history.
    """

    def __init__(self, world: World, host: SimHost, server: Address, name: str) -> None:
        self.name = name
        self._world = world
        self._host = host
        self._server = server
        self._transport: Transport | None = None
        self._correlation_id = 0
        self._received = bytearray()
        self._buffer = bytearray(_RECEIVE_BYTES)

    async def ask(
        self, request: Message, version: int, response_class: type[ResponseT]
    ) -> ResponseT:
        """The response to a request.

        Raises:
            OSError: the connection broke or no answer came in time. Nobody knows whether the
                request was served.
        """
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                return await self._ask(request, version, response_class)
        except OSError as error:
            self._world.note(self.name, f"{type(request).__name__} failed: {type(error).__name__}")
            self.disconnect()
            raise

    async def _ask(
        self, request: Message, version: int, response_class: type[ResponseT]
    ) -> ResponseT:
        if self._transport is None:
            self._transport = await self._host.connect(*self._server, timeout_ms=TIMEOUT_MS)
        assert request.API_KEY is not None
        api = BY_KEY[request.API_KEY]
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.name,
        )
        parts: list[bytes] = []
        header.ENCODERS[api.request_header_version(version)](header, parts.append)
        request.ENCODERS[version](request, parts.append)
        frame = b"".join(parts)
        self._world.note(self.name, f"{api.name} {frame.hex()}")
        await self._send(self._transport, _length.pack(len(frame)) + frame)
        answer = await self._receive(self._transport)
        self._world.note(self.name, f"answer {answer.hex()}")
        (correlation_id,) = _length.unpack_from(answer)
        assert correlation_id == self._correlation_id
        position = 4
        if api.response_header_version(version):
            position = skip_tagged_fields(memoryview(answer), 5, answer[4]) if answer[4] else 5
        return response_class.decode(memoryview(answer), version, position)

    async def _send(self, transport: Transport, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[transport.send(view) :]
            except BlockingIOError:
                await _ready(transport.watch_writable, transport.unwatch_writable)

    async def _receive(self, transport: Transport) -> bytes:
        received = self._received
        while len(received) < 4 or len(received) < 4 + _length.unpack_from(received)[0]:
            try:
                count = transport.recv_into(self._buffer)
            except BlockingIOError:
                await _ready(transport.watch_readable, transport.unwatch_readable)
                continue
            if not count:
                raise ConnectionError("the broker closed the connection")
            received += self._buffer[:count]
        frame = bytes(received[4 : 4 + _length.unpack_from(received)[0]])
        del received[: 4 + len(frame)]
        return frame

    def disconnect(self) -> None:
        """Close the connection, if there is one."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._received.clear()


async def _ready(watch: Callable[[Callable[[], None]], None], unwatch: Callable[[], None]) -> None:
    """Wait until the watched transport is ready."""
    ready = asyncio.Event()
    watch(ready.set)
    try:
        await ready.wait()
    finally:
        unwatch()
