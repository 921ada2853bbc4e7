"""A client connection for thousands of requests per second, with little work for each request."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar

from compat.lab.wire_client import decode_response, request_frame

from odradek.wire.primitives import Message

Response = TypeVar("Response", bound=Message)

_length = struct.Struct(">i").unpack_from


class Connection(asyncio.Protocol):
    """A socket. The responses arrive in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a broker on loopback."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        received = self._received
        received += data
        start = 0
        while len(received) - start >= 4:
            end = start + 4 + _length(received, start)[0]
            if end > len(received):
                break
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(bytes(received[start + 4 : end]))
            start = end
        del received[:start]

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        for each in self._waiting:
            if not each.done():
                each.set_exception(ConnectionError("the broker closed the connection"))

    def send(self, frame: bytes) -> asyncio.Future[bytes]:
        """Send an encoded request. Return a future of the response's frame without its length."""
        assert self._transport is not None
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(frame)
        return answer

    async def ask(
        self, name: str, version: int, request: Message, response: type[Response]
    ) -> Response:
        """Send a request of the API `name`, and return its response."""
        frame = request_frame(name, version, request, next(self._numbers))
        return decode_response(name, version, await self.send(frame), response)

    def close(self) -> None:
        """Close the connection. Requests without a response raise `ConnectionError`."""
        assert self._transport is not None
        self._transport.close()


async def connect(port: int, count: int) -> list[Connection]:
    """Return `count` new connections."""
    return [await Connection.open(port) for _ in range(count)]


def spread(
    partitions: Mapping[str, int], members: Sequence[str]
) -> dict[str, dict[str, list[int]]]:
    """Assign the partitions of each topic to members in ranges: member -> topic -> partitions."""
    found: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    if not members:
        return found
    places = [(topic, index) for topic, count in partitions.items() for index in range(count)]
    for position, (topic, index) in enumerate(places):
        member = members[position * len(members) // len(places)]
        found[member].setdefault(topic, []).append(index)
    return found
