"""A client of Kafka's protocol on a simulated network."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.env.network import Address, Transport
from odradek.sim.loop import SimLoop
from odradek.sim.network import SimHost
from odradek.sim.simulation import Simulation
from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import Message, skip_tagged_fields

TIMEOUT_MS = 4_000
_RECEIVE_BYTES = 1 << 16
_length = struct.Struct(">i")

ResponseT = TypeVar("ResponseT", bound=Message)


class Client:
    """Sends requests to one address. It connects when there is no connection.

    The history contains every request and every response.
    """

    asks_former_leaders = False
    """Whether a broker may respond that does not know yet that it leads no more."""

    def __init__(self, simulation: Simulation, host: SimHost, server: Address, name: str) -> None:
        self.name = name
        self.rack = ""
        """The rack in Fetch requests (KIP-392). Empty if the client always reads from leaders."""
        self._simulation = simulation
        self._host = host
        self._server = server
        self._transport: Transport | None = None
        self._correlation_id = 0
        self._received = bytearray()
        self._buffer = bytearray(_RECEIVE_BYTES)

    @property
    def loop(self) -> SimLoop:
        """The event loop of the client's process."""
        return self._host.loop

    async def ask(
        self, request: Message, version: int, response_class: type[ResponseT]
    ) -> ResponseT:
        """Return the response to a request.

        Raises:
            OSError: the connection failed, or no response arrived in time. The broker may have
                processed the request.
        """
        (response,) = await self.ask_all([request], version, response_class)
        return response

    async def ask_all(
        self, requests: Sequence[Message], version: int, response_class: type[ResponseT]
    ) -> list[ResponseT]:
        """Send all requests before waiting for the first response. Return the responses.

        Raises:
            OSError: as `ask`. The broker may have processed some of the requests.
        """
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                if self._transport is None:
                    self._transport = await self._host.connect(*self._server, timeout_ms=TIMEOUT_MS)
                ids = [await self._send(self._transport, each, version) for each in requests]
                return [
                    await self._receive(self._transport, each, version, response_class)
                    for each in ids
                ]
        except OSError as error:
            self._simulation.note(
                self.name, f"{response_class.__name__} failed: {type(error).__name__}"
            )
            self.disconnect()
            raise

    async def _send(self, transport: Transport, request: Message, version: int) -> int:
        """Send a request, and return its correlation id."""
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
        self._simulation.note(self.name, f"{api.name} {frame.hex()}")
        view = memoryview(_length.pack(len(frame)) + frame)
        while view:
            try:
                view = view[transport.send(view) :]
            except BlockingIOError:
                await _ready(transport.watch_writable, transport.unwatch_writable)
        return self._correlation_id

    async def _receive(
        self,
        transport: Transport,
        correlation_id: int,
        version: int,
        response_class: type[ResponseT],
    ) -> ResponseT:
        """Return the next response, which must have this correlation id."""
        frame = await self._receive_frame(transport)
        self._simulation.note(self.name, f"answer {frame.hex()}")
        assert _length.unpack_from(frame) == (correlation_id,)
        assert response_class.API_KEY is not None
        position = 4
        if BY_KEY[response_class.API_KEY].response_header_version(version):
            position = skip_tagged_fields(memoryview(frame), 5, frame[4]) if frame[4] else 5
        return response_class.decode(memoryview(frame), version, position)

    async def _receive_frame(self, transport: Transport) -> bytes:
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
