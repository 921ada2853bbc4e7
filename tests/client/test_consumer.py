"""Assigned partitions: start offsets, skipped records, and recovery from errors."""

from __future__ import annotations

import time

import pytest
from tests.client.fake_broker import Disconnect

from odradek.client.cluster import Cluster
from odradek.client.consumer import Consumer, records_of, visible_batches
from odradek.client.errors import (
    BrokerError,
    ClientError,
    MalformedResponseError,
    OffsetOutOfRangeError,
)
from odradek.client.fetcher import (
    AbortedTransaction,
    Chunk,
    Fetcher,
    FetchLimits,
    whole_batches,
)
from odradek.client.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    list_offsets,
    offsets_at,
)
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import end_of_transaction_batch
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

FETCH = FetchRequest.API_KEY


def fill(cluster, topic, count, size=10, partition=None):
    with Producer(cluster, batch_size=500) as producer:
        for n in range(count):
            producer.send(
                topic, str(n).encode().ljust(size), partition=partition, timestamp=1000 + n
            )


def values(records):
    return [int(record.value) for record in records]


# -- against a live broker -----------------------------------------------------------------


def test_where_reading_begins(cluster, make_topic):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    fill(cluster, topic, 100)
    assert offsets_at(cluster, [key], EARLIEST) == {key: 0}
    assert offsets_at(cluster, [key], LATEST) == {key: 100}
    assert offsets_at(cluster, [key], 1042) == {key: 42}
    assert offsets_at(cluster, [key], 5000) == {key: 100}
    assert list_offsets(cluster, {key: MAX_TIMESTAMP})[key][:2] == (99, 1099)
    consumer = Consumer(cluster)
    for time_ms, first in ((EARLIEST, 0), (1042, 42), (1099, 99)):
        consumer.assign_at([key], time_ms)
        assert values(consumer.poll(2000)[key])[0] == first


def test_seeking_and_dropping(cluster, make_topic):
    topic = make_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(cluster, topic, 50, partition=0)
    fill(cluster, topic, 50, partition=1)
    consumer = Consumer(cluster, limits=FetchLimits(partition_bytes_max=600, wait_ms_max=50))
    consumer.assign({first: 0, second: 0})
    consumer.poll(1000)
    consumer.seek({first: 30})
    consumer.drop([second])
    seen = []
    while consumer.positions[first] < 50:
        records = consumer.poll(1000)
        assert set(records) <= {first}
        seen += values(records.get(first, []))
    assert seen == list(range(30, 50))
    assert consumer.poll(10) == {}


def test_an_offset_that_the_partition_does_not_hold(cluster, make_topic):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    fill(cluster, topic, 5)
    strict = Consumer(cluster)
    strict.assign({key: 99})
    with pytest.raises(OffsetOutOfRangeError, match="does not hold offset 99"):
        strict.poll(2000)
    lenient = Consumer(cluster, reset_to=EARLIEST)
    lenient.assign({key: 99})
    seen = []
    while len(seen) < 5:
        seen += values(lenient.poll(2000).get(key, []))
    assert seen == list(range(5))


def test_new_records_wake_a_waiting_fetch(cluster, make_topic, bootstrap):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    consumer = Consumer(cluster, limits=FetchLimits(wait_ms_max=60_000))
    consumer.assign({key: 0})
    assert consumer.poll(50) == {}
    with Cluster(bootstrap) as other:
        fill(other, topic, 1)
    started = time.monotonic()
    assert values(consumer.poll(60_000)[key]) == [0]
    assert time.monotonic() - started < 50, "the broker waited in spite of a new record"


def test_without_sessions(cluster, make_topic):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    fill(cluster, topic, 30)
    fetcher = Fetcher(cluster, sessions=False, limits=FetchLimits(partition_bytes_max=300))
    fetcher.seek({key: 0})
    chunks = []
    while fetcher.positions[key] < 30:
        chunks += fetcher.poll(1000)
    assert values(record for chunk in chunks for record in records_of(chunk)) == list(range(30))
    assert {chunk.end_offset for chunk in chunks} == {30}


# -- against a scripted one ----------------------------------------------------------------


@pytest.fixture
def scripted(fake):
    fake.topics["t"] = 1
    with Cluster(fake.address, timeout_ms=2000) as cluster:
        yield cluster


KEY = TopicPartition("t", 0)


def batch(first, count=1, **fields):
    builder = RecordBatchBuilder(base_offset=first, **fields)
    for offset in range(first, first + count):
        builder.append(0, None, str(offset).encode())
    return bytes(builder.build())


def answer(records=b"", code=0, session_id=0, error_code=0):
    data = PartitionData(
        partition_index=0, error_code=code, high_watermark=100, records=records or None
    )
    topics = [FetchableTopicResponse(topic="t", partitions=[data])]
    return FetchResponse(session_id=session_id, error_code=error_code, responses=topics)


def read(scripted, count):
    consumer = Consumer(scripted)
    consumer.assign({KEY: 0})
    seen = []
    while len(seen) < count:
        seen += values(consumer.poll(100).get(KEY, []))
    return seen


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_errors_that_pass(fake, scripted, code):
    fake.answers[FETCH] = [
        lambda _: answer(code=code),
        lambda _: answer(batch(0, 3)),
        lambda _: answer(),
    ]
    assert read(scripted, 3) == [0, 1, 2]


def test_a_session_that_the_broker_has_dropped(fake, scripted):
    fake.answers[FETCH] = [
        lambda _: answer(batch(0), session_id=5),
        lambda _: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        lambda _: answer(batch(1), session_id=6),
        lambda _: answer(session_id=6),
    ]
    assert read(scripted, 2) == [0, 1]
    sessions = [(r.session_id, r.session_epoch) for r in fake.requests[FETCH]]
    assert sessions[:3] == [(0, 0), (5, 1), (0, 0)]


def test_a_connection_that_breaks(fake, scripted):
    def leave(_):
        raise Disconnect

    fake.answers[FETCH] = [lambda _: answer(batch(0)), leave, lambda _: answer(batch(1))]
    assert read(scripted, 2) == [0, 1]


def test_an_error_that_stays(fake, scripted):
    fake.answers[FETCH] = lambda _: answer(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(scripted, 1)


def test_an_error_that_should_pass_but_lasts(fake, scripted):
    fake.answers[FETCH] = lambda _: answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER"):
        read(scripted, 1)


def test_one_partition_in_trouble_does_not_lose_the_records_of_another(fake):
    fake.topics["t"] = 2
    other = TopicPartition("t", 1)

    def half(_):
        response = answer(batch(0, 2))
        bad = PartitionData(partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response.responses[0].partitions.append(bad)
        return response

    fake.answers[FETCH] = half
    with Cluster(fake.address, timeout_ms=2000) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({KEY: 0, other: 0})
        assert values(consumer.poll(1000)[KEY]) == [0, 1]
        with pytest.raises(BrokerError, match="t-1"):
            consumer.poll(1000)


def test_records_that_are_not_whole(fake, scripted):
    fake.answers[FETCH] = lambda _: answer(batch(0, 3)[:-1])
    with pytest.raises(MalformedResponseError, match="no whole batch"):
        read(scripted, 1)


def test_a_damaged_batch(fake, scripted):
    damaged = bytearray(batch(0, 3))
    damaged[-1] ^= 1
    fake.answers[FETCH] = lambda _: answer(bytes(damaged))
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        read(scripted, 1)


def test_a_broker_that_does_not_come_back(fake, scripted):
    fake.answers[FETCH] = lambda _: answer()
    consumer = Consumer(scripted)
    consumer.assign({KEY: 0})
    consumer.poll(10)
    fake.stop()
    with pytest.raises(ClientError):
        consumer.poll(60_000)


# -- what readers see ----------------------------------------------------------------------


def chunk(*batches, offset=0, aborted=()):
    data = memoryview(b"".join(bytes(each) for each in batches))
    _, next_offset = whole_batches(data)
    return Chunk(KEY, offset, next_offset, data, 100, 0, aborted)


def marker(offset, producer_id, committed):
    data = end_of_transaction_batch(
        committed, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    data[0:8] = offset.to_bytes(8, "big")
    return data


def transactional(first, producer_id, count=1):
    return batch(first, count, producer_id=producer_id, producer_epoch=0, base_sequence=0,
                 is_transactional=True)  # fmt: skip


def test_records_before_the_offset_are_left_out():
    assert values(records_of(chunk(batch(0, 5), batch(5, 2), offset=3))) == [3, 4, 5, 6]


def test_aborted_transactions_are_left_out_when_reading_committed():
    data = (
        batch(0),
        transactional(1, 10),
        transactional(2, 20),
        marker(3, 10, committed=False),
        transactional(4, 10),
        marker(5, 10, committed=True),
        transactional(6, 20),
        marker(7, 20, committed=False),
        batch(8),
    )
    aborted = (AbortedTransaction(20, 2), AbortedTransaction(10, 1))
    read = chunk(*data, aborted=aborted)
    assert values(records_of(read, READ_COMMITTED)) == [0, 4, 8]
    assert values(records_of(read)) == [0, 1, 2, 4, 6, 8]


def test_records_of_others_are_not_taken_for_aborted():
    data = memoryview(b"".join(map(bytes, (transactional(0, 10), batch(1, producer_id=20)))))
    aborted = (AbortedTransaction(10, 0), AbortedTransaction(20, 0))
    assert [each.base_offset for each in visible_batches(data, aborted)] == [1]


def test_whole_batches():
    data = batch(0, 3) + batch(3, 2)
    assert whole_batches(memoryview(data)) == (len(data), 5)
    assert whole_batches(memoryview(data + data[:30])) == (len(data), 5)
    assert whole_batches(memoryview(data[:20])) == (0, -1)
    assert whole_batches(memoryview(b"")) == (0, -1)
    assert whole_batches(memoryview(bytes(100))) == (0, -1)
