"""Batches whose validation takes long are validated on another thread, and keep their order."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient, decode_response
from confluent_kafka import Consumer, TopicPartition
from tests.log.support import batch
from tests.support.threads import threads_of

from odradek.handlers import produce
from odradek.model.errors import ErrorCode
from odradek.records.compression import Codec
from odradek.testing import Broker
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
LONG = bytes(3 << 20)
TOO_LONG = bytes(20 << 20)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 3}) as running:
        running.create_topics({"gzip": 1}, {"compression.type": "gzip"})
        running.create_topics({"append-time": 1}, {"message.timestamp.type": "LogAppendTime"})
        running.create_topics({"recent": 1}, {"message.timestamp.before.max.ms": 3_600_000})
        running.create_topics({"refused": 1})
        yield running


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads of long validations, in their order."""
    return threads_of(monkeypatch, produce, "validate")


def request(topic: str, *batches: bytes, first: int = 0, acks: int = -1) -> ProduceRequest:
    data = [
        PartitionProduceData(index=first + at, records=records)
        for at, records in enumerate(batches)
    ]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def results(wire: WireClient, version: int = 9) -> list[tuple[int, int]]:
    """Return the error code and the base offset of each partition in the next response."""
    response = decode_response("Produce", version, wire.receive(), ProduceResponse)
    (topic,) = response.responses
    return [(each.error_code, each.base_offset) for each in topic.partition_responses]


def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """Return the values of the first `count` records of partition 0."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"}
    consumer = Consumer({**settings, "fetch.message.max.bytes": 100 << 20})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [record.value() for record in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def on_other_threads(names: list[str]) -> bool:
    return all(name.startswith("odradek-validation") for name in names)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("acks", [1, -1])
def test_pipelined_requests_keep_their_order(broker, threads, codec, acks):
    """With sequence numbers, a request that overtakes another gets an error."""
    producer = 1000 + 10 * codec + acks
    batches = [
        bytes(
            batch(
                LONG if number % 3 else b"short",
                codec=codec,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=number,
            )
        )
        for number in range(9)
    ]
    with WireClient(broker.port) as wire:
        frames = [wire.frame("Produce", 9, request("orders", each, acks=acks)) for each in batches]
        wire.send(b"".join(frames))
        found = [results(wire) for _ in frames]
    assert [codes for ((codes, _),) in found] == [0] * 9
    offsets = [offset for ((_, offset),) in found]
    assert offsets == list(range(offsets[0], offsets[0] + 9))
    assert len(threads) == 6
    assert on_other_threads(threads)


def test_one_request_with_long_and_short_batches(broker, threads):
    long, short = bytes(batch(LONG, codec=Codec.ZSTD)), bytes(batch(b"short"))
    bomb = bytes(batch(TOO_LONG, codec=Codec.ZSTD))
    with WireClient(broker.port) as wire:
        for batches in ((short, long, short), (long, long, bomb), (bomb, short, long)):
            wire.send(wire.frame("Produce", 9, request("orders", *batches)))
            codes = [code for code, _ in results(wire)]
            refused = ErrorCode.INVALID_RECORD
            assert codes == [refused if each is bomb else 0 for each in batches]
        wire.send(wire.frame("Produce", 9, request("orders", long, short, first=2)))
        (_, first), (missing, _) = results(wire)
        assert first >= 0
        assert missing == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(threads) == 1 + 3 + 2 + 1
    assert on_other_threads(threads)


@pytest.mark.parametrize("topic", ["gzip", "append-time", "recent"])
def test_settings_that_need_more_than_the_usual_check(broker, threads, topic):
    now_ms = time.time_ns() // 1_000_000
    sent = [b"short", LONG, b"x" * 100_000, b"end"]
    with WireClient(broker.port) as wire:
        for number, value in enumerate(sent):
            records = bytes(batch(value, timestamp=now_ms, codec=Codec(number)))
            wire.send(wire.frame("Produce", 9, request(topic, records)))
            assert results(wire) == [(0, number)]
    assert threads
    assert on_other_threads(threads)
    assert read(broker, topic, len(sent)) == sent


def test_a_refused_batch_without_acknowledgement_closes_the_connection(broker):
    bomb = bytes(batch(TOO_LONG, codec=Codec.GZIP))
    with WireClient(broker.port) as wire:
        wire.send(wire.frame("Produce", 9, request("refused", bomb, acks=0)))
        with pytest.raises(ConnectionError):
            wire.receive()


def test_clients_that_leave_meanwhile(broker):
    long = bytes(batch(LONG, codec=Codec.LZ4))
    for _ in range(20):
        with WireClient(broker.port) as wire:
            wire.send(wire.frame("Produce", 9, request("orders", long)) * 2)
    with WireClient(broker.port) as wire:
        wire.send(wire.frame("Produce", 9, request("orders", long)))
        assert results(wire)[0][0] == 0
