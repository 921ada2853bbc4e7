"""Sends single requests over a plain socket, for data that client libraries do not expose.

The codecs of Odradek decode the responses. The module is used to check whether a broker is ready,
to read the headers of stored batches, and to send invalid requests.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import NamedTuple, Self, TypeVar, cast

from odradek.records.builder import RecordBatchBuilder
from odradek.wire.api import BY_NAME
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.response_header import ResponseHeader
from odradek.wire.primitives import Message

Response = TypeVar("Response", bound=Message)

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Batch(NamedTuple):
    """The header of a stored record batch."""

    base_offset: int
    size: int
    """The size of the whole batch in bytes, with its header."""
    codec: str
    log_append_time: bool
    producer_id: int
    records: int
    is_control: bool


def request_frame(name: str, version: int, request: Message, correlation_id: int) -> bytes:
    """Encode a request of the API `name`, with its length prefix and header."""
    api = BY_NAME[name]
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="compat",
    )
    head = header.encode(api.request_header_version(version))
    body = request.encode(version)
    return struct.pack(">i", len(head) + len(body)) + head + body


def decode_response(name: str, version: int, frame: bytes, response: type[Response]) -> Response:
    """Decode a response of the API `name`. `frame` does not have the length prefix."""
    header_version = BY_NAME[name].response_header_version(version)
    _, position = ResponseHeader.decode_prefix(frame, header_version)
    return response.decode(frame, version, position)


class WireClient:
    """A connection to a broker."""

    def __init__(self, port: int, *, timeout: float = 30.0, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def frame(self, name: str, version: int, request: Message) -> bytes:
        """Encode a request with its length prefix and header."""
        self._correlation_id += 1
        return request_frame(name, version, request, self._correlation_id)

    def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next frame without its length prefix.

        Raises:
            ConnectionError: the broker closed the connection.
        """
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def call(self, name: str, version: int, request: Message, response: type[Response]) -> Response:
        """Send a request, and return its response."""
        self.send(self.frame(name, version, request))
        return decode_response(name, version, self.receive(), response)

    def metadata(self, *topics: str) -> MetadataResponse:
        """Request the metadata of topics. Without `topics` the response has only the brokers."""
        asked = [MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=True)
        return self.call("Metadata", 4, request, MetadataResponse)

    def serving(self, topic: str, partitions: int) -> int:
        """Return the number of partitions of the topic that the broker already serves as leader."""
        return len(self.end_offsets(topic, partitions))

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the end offsets of the topic's partitions that the broker serves."""
        wanted = [
            ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
        )
        response = self.call("ListOffsets", 1, request, ListOffsetsResponse)
        return {
            each.partition_index: each.offset
            for each in response.topics[0].partitions
            if not each.error_code
        }

    def batches(self, topic: str, partition: int, offset: int = 0) -> list[Batch]:
        """Return the headers of the stored complete batches from `offset` on (Fetch version 4)."""
        self.ask_for_batches(topic, partition, offset=offset, max_bytes=64 << 20)
        response = decode_response("Fetch", 4, self.receive(), FetchResponse)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise RuntimeError(f"fetching {topic}-{partition}: error {answer.error_code}")
        return batch_headers(cast("memoryview | bytes | None", answer.records) or b"")

    def ask_for_batches(
        self, topic: str, partition: int, *, max_bytes: int, offset: int = 0
    ) -> None:
        """Send a Fetch request. Do not wait for the response."""
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        self.send(self.frame("Fetch", 4, request))

    def has_leader(self, topic: str) -> bool:
        """Return whether the topic's first partition has a leader. A missing topic is created."""
        (answer,) = self.metadata(topic).topics
        return not answer.error_code and answer.partitions[0].leader_id >= 0

    def produce_one(self, topic: str, value: bytes) -> int:
        """Write a record with acks=all (Produce version 9), and return the error code."""
        builder = RecordBatchBuilder()
        builder.append(time.time_ns() // 1_000_000, None, value)
        data = PartitionProduceData(index=0, records=builder.build())
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        response = self.call("Produce", 9, request, ProduceResponse)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)


def batch_headers(records: bytes | memoryview) -> list[Batch]:
    """Return the headers of all complete batches in `records`."""
    batches: list[Batch] = []
    position = 0
    while position + BATCH_HEADER.size <= len(records):
        fields = BATCH_HEADER.unpack_from(records, position)
        base_offset, length, attributes, producer_id, count = (
            fields[0],
            fields[1],
            fields[5],
            fields[9],
            fields[12],
        )
        if position + 12 + length > len(records):
            break
        codec = CODECS[attributes & 7]
        append_time = bool(attributes & 8)
        is_control = bool(attributes & 0x20)
        batches.append(
            Batch(base_offset, 12 + length, codec, append_time, producer_id, count, is_control)
        )
        position += 12 + length
    return batches
