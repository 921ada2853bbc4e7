"""Attacks with compressed records, and with large responses."""

from __future__ import annotations

import contextlib
import socket
import time

from compat.lab.wire_client import WireClient, request_frame
from tests.attacks.attack import MEGABYTE, attack, chunks, connect, hold, many, tls_context
from tests.attacks.target import Victim
from tests.bad_input.corpus import bombs
from tests.bad_input.target import create_topic

from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
ALLOWED_BYTES = 15 * MEGABYTE
"""Records of this size are accepted, however small the compressed batch is."""
LARGE_TOPIC = "large"


def produce(wire: WireClient, topic: str, records: bytes, acks: int = -1) -> int:
    """Send a batch, and return the error code."""
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=acks, timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )  # fmt: skip
    response = wire.call("Produce", 9, request, ProduceResponse)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def _batch(codec: Codec, size: int, key: bytes | None) -> bytes:
    builder = RecordBatchBuilder(codec=codec)
    builder.append(time.time_ns() // 1_000_000, key, bytes(size))
    return bytes(builder.build())


def _topic(victim: Victim, name: str, **configs: str) -> bool:
    """Create a topic, unless it is there. Return whether it is new."""
    with WireClient(victim.port) as wire:
        if wire.serving(name, 1):
            return False
    create_topic(
        victim.port, name, {key.replace("_", "."): value for key, value in configs.items()}
    )
    return True


@attack("batches that decompress to hundreds of megabytes", count=60, growth_max_megabytes=250)
def rejected_bombs(victim: Victim, count: int) -> None:
    """All are rejected, also if the topic has another codec, so that they must be recompressed."""
    # Snappy cannot compress so much: its largest batch decompresses to 20 times its size.
    batches = [case.data for case in bombs() if not case.name.startswith("SNAPPY record")]
    topics = ("bombs", "bombs-recompressed", "bombs-compacted")
    _topic(victim, topics[0])
    _topic(victim, topics[1], compression_type="gzip")
    _topic(victim, topics[2], cleanup_policy="compact")
    with WireClient(victim.port) as wire:
        for number in range(count):
            code = produce(wire, topics[number % 3], batches[number % len(batches)])
            assert code in (87, 2, 10), code


@attack("batches of a few KB that decompress to 15 MB", count=120, growth_max_megabytes=250)
def accepted_bombs(victim: Victim, count: int) -> None:
    """They are accepted, as in Apache Kafka; some are recompressed."""
    topics = {"small": {}, "small-lz4": {"compression_type": "lz4"}}
    for name, configs in topics.items():
        _topic(victim, name, max_message_bytes=str(20 * MEGABYTE), **configs)
    batches = [_batch(codec, ALLOWED_BYTES, None) for codec in COMPRESSED]
    with WireClient(victim.port) as wire:
        for number in range(count):
            topic = list(topics)[number % 2]
            assert produce(wire, topic, batches[number // 2 % len(batches)]) == 0


@attack("small batches that compaction must decompress", count=200, growth_max_megabytes=500)
def compacted_bombs(victim: Victim, count: int) -> None:
    """Two keys, so that each round of compaction reads almost all batches."""
    _topic(
        victim, "compacted", cleanup_policy="compact", segment_bytes=str(MEGABYTE),
        min_cleanable_dirty_ratio="0.01", max_message_bytes=str(20 * MEGABYTE),
    )  # fmt: skip
    batches = [
        _batch(codec, ALLOWED_BYTES, b"key-%d" % number)
        for number in range(2)
        for codec in COMPRESSED
    ]
    with WireClient(victim.port) as wire:
        for number in range(count):
            assert produce(wire, "compacted", batches[number % len(batches)]) == 0
    hold(15)  # at least one round


def _fill(victim: Victim) -> None:
    """Write 60 MB that do not compress, unless they are there."""
    if not _topic(victim, LARGE_TOPIC):
        return
    builder = RecordBatchBuilder()
    builder.append(0, None, bytes(900_000))
    batch = bytes(builder.build())
    with WireClient(victim.port) as wire:
        for _ in range(60):
            assert produce(wire, LARGE_TOPIC, batch, acks=1) == 0


def _fetch() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MEGABYTE)
    topic = FetchTopic(topic=LARGE_TOPIC, partitions=[partition])
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=50 * MEGABYTE, topics=[topic]
    )
    return request_frame("Fetch", 4, request, 1)


def _read_slowly(connections: list[socket.socket], seconds: int) -> None:
    """Read a byte a second from each connection."""
    for _ in range(seconds):
        for each in connections:
            assert each.recv(1)
        hold(1)


@attack("slow readers of 50 MB each", count=500, growth_max_megabytes=200)
def slow_readers(victim: Victim, count: int) -> None:
    _fill(victim)
    with many(victim.port, count) as connections:
        for each in connections:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(_fetch() * 3)
        _read_slowly(connections, 10)


@attack("slow readers of 50 MB each over TLS", count=200, growth_max_megabytes=250)
def slow_readers_over_tls(victim: Victim, count: int) -> None:
    context = tls_context(victim)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            plain = stack.enter_context(connect(victim.ports["SSL"]))
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            encrypted = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            encrypted.sendall(_fetch() * 3)
            connections.append(encrypted)
        _read_slowly(connections, 10)


@attack("readers of 50 MB that leave at once", count=10_000, growth_max_megabytes=150)
def leaving_readers(victim: Victim, count: int) -> None:
    for size in chunks(count, 100):
        with many(victim.port, size) as connections:
            for each in connections:
                each.sendall(_fetch())
