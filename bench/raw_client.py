"""Fetches over a plain socket, with as little CPU time in the client as Python allows.

The client first determines the offsets of the fetches from the headers of the batches, and encodes
the requests. Then it sends the same requests again and again. It receives the responses into one
buffer, and reads only their sizes.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import NamedTuple, Self, cast

from compat.lab.wire_client import BATCH_HEADER, decode_response, request_frame

from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse

VERSION = 12
TIMEOUT_SECONDS = 60.0
_LENGTH = struct.Struct(">i")
_OVERHEAD = 12


class Planned(NamedTuple):
    """An encoded fetch request, and the size of its response."""

    request: bytes
    response_size: int
    """The size in bytes, without the four bytes of the length."""


class RawClient:
    """A connection to a broker. Use it in a `with` statement, which closes the connection."""

    def __init__(self, port: int, max_bytes: int) -> None:
        """Connect to a broker on loopback. `max_bytes` is the maximum size of a fetch."""
        self._max_bytes = max_bytes
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(2 * max_bytes + (1 << 16)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def plan(self, topic: str, end_offset: int) -> list[Planned]:
        """Read partition 0 of `topic` up to `end_offset`, and return the fetches."""
        planned = []
        offset = 0
        while offset < end_offset:
            request = self._request(topic, offset)
            size = self._exchange(request)
            answer = decode_response("Fetch", VERSION, bytes(self._buffer[:size]), FetchResponse)
            partition = answer.responses[0].partitions[0]
            assert not partition.error_code, f"the fetch was refused: {partition.error_code}"
            planned.append(Planned(request, size))
            following = next_offset(cast("memoryview | bytes | None", partition.records) or b"")
            assert following > offset, f"nothing came at offset {offset}"
            offset = following
        return planned

    def replay(self, planned: list[Planned]) -> int:
        """Send the fetches again, one after the other. Return the number of received bytes.

        Raises:
            RuntimeError: the size of a response differs from the size in `planned`.
        """
        received = 0
        for request, expected in planned:
            size = self._exchange(request)
            if size != expected:
                raise RuntimeError(f"an answer of {size} bytes had {expected} before")
            received += size
        return received

    def _request(self, topic: str, offset: int) -> bytes:
        wanted = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=self._max_bytes
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=self._max_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        return request_frame("Fetch", VERSION, request, 1)

    def _exchange(self, request: bytes) -> int:
        """Send a request, receive its response into the buffer, and return the response's size."""
        self._socket.sendall(request)
        self._receive(4)
        size: int = _LENGTH.unpack_from(self._buffer)[0]
        self._receive(size)
        return size

    def _receive(self, count: int) -> None:
        done = 0
        while done < count:
            taken = self._socket.recv_into(self._buffer[done:count])
            if not taken:
                raise ConnectionError("the broker closed the connection")
            done += taken


def next_offset(records: bytes | memoryview) -> int:
    """Return the offset after the last complete batch in `records`; -1 if there is none."""
    position, following = 0, -1
    while position + BATCH_HEADER.size <= len(records):
        fields = BATCH_HEADER.unpack_from(records, position)
        end = position + _OVERHEAD + fields[1]
        if end > len(records):
            break
        following = fields[0] + fields[6] + 1
        position = end
    return following
