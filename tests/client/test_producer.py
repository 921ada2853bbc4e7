"""Records are written once and in order, and failures are reported."""

from __future__ import annotations

import random
import threading

import pytest
from tests.client.fake_broker import NODE_ID, Disconnect
from tests.support.run_seed import seeds

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.core.partitioners import partition_for_key
from odradek.client.errors import BrokerError, NoSuchTopicError, NotDeliveredError
from odradek.client.offsets import EARLIEST, offsets_at
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.records.compression import Codec
from odradek.records.record import iterate_records
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.produce_request import ProduceRequest
from odradek.wire.generated.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

PRODUCE = ProduceRequest.API_KEY
ONE_RECORD_A_BATCH = {"batch.size": 1}


def read_all(cluster, topic):
    keys = [TopicPartition(topic, index) for index in cluster.topic(topic).partitions]
    found = {key: [] for key in keys}
    for batch in read_to_ends(cluster, offsets_at(cluster, keys, EARLIEST)):
        found[batch.topic_partition] += records_of(batch)
    return found


@pytest.fixture
def made():
    """Makes producers that are closed at the end, without waiting."""
    producers = []

    def make(*args, **options):
        producers.append(Producer(*args, **options))
        return producers[-1]

    yield make
    for each in producers:
        each.close(0)


# -- against a live broker -----------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_what_is_written_is_read(cluster, make_topic, codec):
    topic = make_topic()
    headers = (("a", b"1"), ("a", None), ("é", b"\xff"))
    with Producer(cluster, compression_type=codec.name.lower()) as producer:
        producer.send(topic, b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123)
        producer.send(topic, None, key=b"gone")
        producer.send(topic, b"")
        producer.send(topic, b"x" * 100_000)
    ((key, records),) = read_all(cluster, topic).items()
    assert key == TopicPartition(topic, 0)
    assert [(r.offset, r.key, r.value, r.headers) for r in records] == [
        (0, b"key", b"value", headers),
        (1, b"gone", None, ()),
        (2, None, b"", ()),
        (3, None, b"x" * 100_000, ()),
    ]
    assert records[0].timestamp == 1_700_000_000_123


def test_keys_decide_the_partition_and_keep_their_order(cluster, make_topic):
    topic = make_topic(partitions=3)
    sent = [(f"k{n % 7}".encode(), str(n).encode()) for n in range(2000)]
    with Producer(cluster, batch_size=300) as producer:
        deliveries = [producer.send(topic, value, key=key) for key, value in sent]
    found = read_all(cluster, topic)
    for (key, value), delivery in zip(sent, deliveries, strict=True):
        where = TopicPartition(topic, partition_for_key(key, 3))
        assert delivery.topic_partition == where
        record = found[where][delivery.offset]
        assert (record.key, record.value) == (key, value)
    for records in found.values():
        values = [int(record.value) for record in records]
        assert values == sorted(values)
    assert sum(map(len, found.values())) == len(sent)


@pytest.mark.parametrize("acks", [1, 0])
def test_fewer_acknowledgements(cluster, make_topic, acks):
    topic = make_topic()
    with Producer(cluster, acks=acks) as producer:
        delivery = producer.send(topic, b"x")
    assert delivery.done
    assert delivery.offset == (0 if acks else -1)
    while not sum(map(len, read_all(cluster, topic).values())):
        pass  # nobody has said when the record arrives


def test_topics_need_not_be_created(cluster):
    with (
        Producer(cluster, allow_auto_create_topics=False) as producer,
        pytest.raises(NoSuchTopicError),
    ):
        producer.send("test-not-there", b"x")


def test_a_partition_that_does_not_exist(cluster, make_topic):
    with Producer(cluster) as producer, pytest.raises(NoSuchTopicError, match="no partition 5"):
        producer.send(make_topic(), b"x", partition=5)


def test_a_batch_that_the_topic_does_not_take(cluster, make_topic, made):
    topic = make_topic(max_message_bytes=1000)
    producer = made(cluster, batch_size=500)
    first = producer.send(topic, b"small")
    large = producer.send(topic, b"x" * 2000)
    later = [producer.send(topic, str(n).encode() * 50) for n in range(20)]
    with pytest.raises(NotDeliveredError, match=r"1 record was not written.*MESSAGE_TOO_LARGE"):
        producer.flush()
    assert first.error is None
    assert isinstance(large.error, BrokerError)
    assert large.error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert large.offset == -1
    assert [each.offset for each in later] == list(range(1, 21))
    producer.flush()  # what was told is not told again


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_batch_that_is_larger_than_the_topic_allows_is_divided(
    cluster, make_topic, made, codec, is_transactional
):
    topic = make_topic(max_message_bytes=3_000)
    more = {"transactional.id": topic} if is_transactional else {}
    producer = made(
        cluster, more, batch_size=100_000, linger_ms=10_000, compression_type=codec.name
    )
    draw = random.Random(1)
    values = [draw.randbytes(draw.randrange(200)) for _ in range(200)]
    called, sent = [], []
    if is_transactional:
        producer.init_transactions()
        producer.begin_transaction()
    for number, each in enumerate(values):
        headers = {"h": b"%d" % number} if number % 2 else None
        sent.append(
            producer.send(
                topic, each, key=b"k", headers=headers, timestamp=number, on_delivery=called.append
            )
        )
    assert len({each.batch for each in sent}) == 1
    if is_transactional:
        producer.commit_transaction()
    producer.flush()
    (records,) = read_all(cluster, topic).values()
    assert [(each.value, each.timestamp) for each in records] == list(
        zip(values, range(200), strict=True)
    )
    assert [each.offset for each in sent] == [each.offset for each in records]
    assert [each.offset for each in called] == [each.offset for each in records]
    assert sent[0].batch.parts
    assert [dict(each.headers) for each in records[:2]] == [{}, {"h": b"1"}]


def test_one_record_of_a_batch_is_too_large_for_the_topic(cluster, make_topic, made):
    topic = make_topic(max_message_bytes=3_000)
    producer = made(cluster, batch_size=100_000, linger_ms=10_000)
    sizes = [100] * 40 + [5_000] + [100] * 40
    sent = [producer.send(topic, bytes(size)) for size in sizes]
    with pytest.raises(NotDeliveredError, match=r"1 record was not written.*MESSAGE_TOO_LARGE"):
        producer.flush()
    assert [number for number, each in enumerate(sent) if each.error] == [40]
    assert sorted(each.offset for each in sent) == [-1, *range(80)]


def test_contradicting_options(cluster):
    with pytest.raises(ValueError, match="acks=all"):
        Producer(cluster, acks=1, enable_idempotence=True)


# -- against a scripted one ----------------------------------------------------------------


class Log:
    """Answers Produce as a partition log does that checks sequences, and fails when told to.

    The first sequence of an identity may be any, as in Apache Kafka.

    `failures` are consumed one by one: an error code, "lost" (not written, connection ends),
    "unheard" (written, but the connection ends before the answer), or None.
    """

    def __init__(self, failures=()):
        self.failures = list(failures)
        self.values = []
        self.expected = {}
        self.identities = set()

    def __call__(self, request):
        failure = self.failures.pop(0) if self.failures else None
        if failure == "lost":
            raise Disconnect
        topics = [self.topic(topic, failure) for topic in request.topic_data]
        if failure == "unheard":
            raise Disconnect
        return ProduceResponse(responses=topics)

    def topic(self, topic, failure):
        partitions = [self.partition(topic.name, p, failure) for p in topic.partition_data]
        return TopicProduceResponse(name=topic.name, partition_responses=partitions)

    def partition(self, name, data, failure):
        batch = RecordBatch(data.records)
        batch.check()
        code, offset = 0, -1
        identity = name, data.index, batch.producer_id, batch.producer_epoch
        expected = self.expected.get(identity, 0)
        self.identities.add(identity[2:])
        if isinstance(failure, int):
            code = failure
        elif batch.base_sequence < expected:
            code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        elif expected and batch.base_sequence > expected:
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            offset = len(self.values)
            self.values += [record.value for record in iterate_records(batch)]
            self.expected[identity] = batch.base_sequence + batch.count
        return PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset)


@pytest.fixture
def scripted(fake):
    fake.topics["t"] = 1
    with Cluster(fake.address, timeout_ms=3000) as cluster:
        yield cluster


@pytest.fixture
def write(scripted, made):
    """Sends numbered records; returns producer, values and deliveries."""

    def write(count, **options):
        values = [str(n).encode() for n in range(count)]
        producer = made(scripted, ONE_RECORD_A_BATCH, **options)
        deliveries = [producer.send("t", value) for value in values]
        return producer, values, deliveries

    return write


@pytest.mark.parametrize("seed", seeds(10))
def test_order_and_count_survive_all_that_may_pass(fake, write, seed):
    dice = random.Random(seed)
    kinds = [None, None, "lost", "unheard", int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    log = fake.answers[PRODUCE] = Log(dice.choices(kinds, k=10))
    producer, values, deliveries = write(40)
    producer.flush()
    assert log.values == values
    assert all(delivery.error is None for delivery in deliveries)
    assert log.identities == {(1000, 0)}


def test_after_an_address_led_to_another_node_the_client_starts_over(fake, write):
    """A broker of Apache Kafka 4.4 says that it is another one (KIP-1242)."""
    fake.cluster_id = "cluster"
    fake.advertised = "localhost", fake.port
    log = fake.answers[PRODUCE] = Log([])
    expecting = []

    def versions(asked):
        if asked.cluster_id is not None:
            expecting.append((asked.cluster_id, asked.node_id))
            if len(expecting) == 1:
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        return fake.api_versions()

    fake.answers[ApiVersionsRequest.API_KEY] = versions
    producer, values, _ = write(3)
    producer.flush()
    assert log.values == values
    assert len(expecting) > 1
    assert set(expecting) == {("cluster", NODE_ID)}
    assert len(fake.requests[MetadataRequest.API_KEY]) > 1


def test_after_a_batch_was_given_up_the_rest_goes_on_in_order(fake, write):
    failures = [None, None, int(ErrorCode.MESSAGE_TOO_LARGE)]
    log = fake.answers[PRODUCE] = Log(failures)
    producer, values, deliveries = write(20)
    with pytest.raises(NotDeliveredError, match="MESSAGE_TOO_LARGE"):
        producer.flush()
    assert log.values == values[:2] + values[3:]
    assert [place for place, each in enumerate(deliveries) if each.error] == [2]
    assert log.identities == {(1000, 0), (1000, 1)}


def test_a_gap_of_another_cause_gets_a_new_epoch(fake, write):
    log = fake.answers[PRODUCE] = Log([int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
    producer, values, deliveries = write(3)
    producer.flush()
    assert log.values == values
    assert [each.offset for each in deliveries] == [0, 1, 2]
    assert log.identities == {(1000, 0), (1000, 1)}


def test_delivery_takes_no_longer_than_allowed(fake, write):
    fake.answers[PRODUCE] = Log([int(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000)
    options = {"delivery_timeout_ms": 200, "request_timeout_ms": 100}
    producer, _, deliveries = write(3, **options)
    with pytest.raises(NotDeliveredError, match=r"3 records were not written.*NOT_ENOUGH_REPLICAS"):
        producer.flush()
    assert all(delivery.done for delivery in deliveries)


def test_records_that_the_broker_refuses_one_by_one(fake, scripted, made):
    def refuse(_):
        refused = BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")
        partition = PartitionProduceResponse(
            index=0, error_code=ErrorCode.INVALID_RECORD, record_errors=[refused]
        )
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[partition])]
        )

    fake.answers[PRODUCE] = refuse
    done = []
    producer = made(scripted, on_batch=done.append, linger_ms=20_000)  # both are in one batch
    refused, other = producer.send("t", b"x"), producer.send("t", b"y")
    with pytest.raises(NotDeliveredError, match="no key"):
        producer.flush()
    assert [batch.record_errors for batch in done] == [{0: "no key"}]
    assert "no key" in str(refused.error)
    assert "refused other records" in str(other.error)


def test_no_more_than_the_allowed_requests_are_under_way(fake, write):
    log = fake.answers[PRODUCE] = Log()
    producer, values, _ = write(10, max_in_flight_requests_per_connection=1)
    producer.flush()
    assert log.values == values


def test_a_full_buffer_waits(fake, scripted, made):
    log = fake.answers[PRODUCE] = Log()
    producer = made(scripted, batch_size=1000, buffer_memory=3000)
    for n in range(500):
        producer.send("t", str(n).encode() * 30)
        assert producer._records.buffered_bytes <= 3000 + 1000
    producer.flush()
    assert len(log.values) == 500


def test_lingering_batches_go_out_with_poll(fake, scripted, made):
    log = fake.answers[PRODUCE] = Log()
    producer = made(scripted, linger_ms=0)
    producer.send("t", b"x")
    while not log.values:
        producer.poll()


def test_lingering_batches_go_out_while_nobody_calls(fake, scripted, made):
    log = fake.answers[PRODUCE] = Log()
    producer = made(scripted)
    told = threading.Event()
    producer.send("t", b"x", on_delivery=lambda _: told.set())
    assert told.wait(30)
    assert log.values == [b"x"]
    told.clear()
    producer.send("t", b"y").add_callback(lambda _: told.set())
    assert told.wait(30)


def test_leaving_with_an_error_does_not_flush(fake, scripted):
    fake.answers[PRODUCE] = Log()

    def fail():
        with Producer(scripted) as producer:
            producer.send("t", b"x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not fake.requests[PRODUCE]
