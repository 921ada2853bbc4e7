"""Wrong calls and bad surroundings of a producer: one exception each, that says what to do."""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import os
import random
import signal
import socket
import threading
import time

import pytest

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.errors import (
    BufferFullError,
    ClosedError,
    NoSuchTopicError,
    NotDeliveredError,
    RecordTooLargeError,
    RequestTimeoutError,
    SerializationError,
    TransactionStateError,
    UnreachableError,
)
from odradek.client.offsets import LATEST, offsets_at
from odradek.client.producer import Producer
from odradek.client.producer.options import given_settings, producer_settings
from odradek.client.serializers import Json, Long
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture
def made(broker):
    """Makes producers that are closed at the end, without waiting."""
    producers = []

    def make(**options):
        producers.append(Producer({"bootstrap.servers": broker.bootstrap_servers, **options}))
        return producers[-1]

    yield make
    for each in producers:
        each.close(0)


@pytest.fixture
def cluster(broker):
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def settings(**keywords):
    return producer_settings(given_settings({}, keywords))


# -- settings ---------------------------------------------------------------------------------


def test_the_defaults_are_those_of_java():
    assert settings() == ProducerSettings(
        acks=-1,
        is_idempotent=True,
        transaction_timeout_ms=60_000,
        batch_bytes=16_384,
        linger_ms=5,
        request_bytes_max=1_048_576,
        buffer_bytes=33_554_432,
        in_flight_max=5,
        delivery_timeout_ms=120_000,
        request_timeout_ms=30_000,
        block_ms_max=60_000,
        retry_backoff_ms=100,
        retry_backoff_ms_max=1_000,
    )


def test_names_of_both_clients_and_keywords():
    by_name = {"linger.ms": "20", "compression.codec": "zstd", "message.timeout.ms": 60_000}
    found = producer_settings(given_settings(by_name, {"batch_size": 5, "compression_level": 7}))
    assert (found.linger_ms, found.codec, found.delivery_timeout_ms) == (20, Codec.ZSTD, 60_000)
    assert (found.batch_bytes, found.compression_level) == (5, 7)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"linger": 5}, "no setting linger"),
        ({"linger.mss": 5}, "do you mean linger.ms"),
        ({"batch_sise": 5}, "do you mean batch"),
        ({"linger_ms": "soon"}, "whole number"),
        ({"linger_ms": True}, "whole number"),
        ({"batch_size": -1}, "at least 0"),
        ({"acks": "2"}, "one of all"),
        ({"enable_idempotence": "maybe"}, "true or false"),
        ({"acks": 1, "enable_idempotence": True}, "acks=all"),
        ({"retries": 0, "enable_idempotence": True}, "retries above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "5 at most"),
        ({"transactional_id": "x", "acks": 1}, "idempotent"),
        ({"delivery_timeout_ms": 1_000}, "at least linger.ms"),
        ({"linger_ms": 1, "linger.ms": 2}, "given twice"),
    ],
)
def test_settings_that_are_refused(keywords, message):
    by_name = {name: value for name, value in keywords.items() if "." in name}
    others = {name: value for name, value in keywords.items() if "." not in name}
    with pytest.raises(ValueError, match=message):
        producer_settings(given_settings(by_name, others))


def test_fewer_acknowledgements_turn_idempotence_off():
    assert not settings(acks=1).is_idempotent
    assert not settings(retries=0).is_idempotent
    assert settings(acks="all", request_timeout_ms=200_000).delivery_timeout_ms == 200_005


def test_the_address_is_missing():
    with pytest.raises(ValueError, match=r"bootstrap\.servers is missing"):
        Producer()


# -- calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": "text"}, "encode it first"),
        ({"key": 7}, "a key is bytes or None, not int"),
        ({"headers": [(b"n", b"v")]}, "name of a header is a string"),
        ({"headers": {"n": "v"}}, "value of a header"),
    ],
)
def test_what_is_not_bytes(made, fields, message):
    with pytest.raises(TypeError, match=message):
        made().send("t", **fields)


def test_buffers_are_copied(made):
    value = bytearray(b"before")
    producer = made()
    delivery = producer.send("t", value, key=memoryview(b"k"))
    value[:] = b"after!"
    assert delivery.wait().offset >= 0


def test_a_record_larger_than_a_request(made):
    producer = made(max_request_size=1_000)
    with pytest.raises(RecordTooLargeError, match=r"2,000 bytes; max.request.size is 1,000"):
        producer.send("t", bytes(2_000))
    producer.send("t", bytes(900)).wait()


def test_topics_and_partitions_that_do_not_exist(made):
    producer = made(**{"allow.auto.create.topics": False})
    with pytest.raises(NoSuchTopicError, match="no such topic"):
        producer.send("missing", b"x")
    for partition in (2, -1):
        with pytest.raises(NoSuchTopicError, match="no partition"):
            producer.send("t", b"x", partition=partition)


def test_a_negative_timestamp(made):
    with pytest.raises(ValueError, match="ms since 1970"):
        made().send("t", b"x", timestamp=-1)


def test_calls_after_close(made):
    producer = made()
    with producer:
        delivery = producer.send("t", b"x")
    assert delivery.offset >= 0
    for call in (
        lambda: producer.send("t", b"x"),
        lambda: producer.send_values("t", [b"x"]),
        producer.flush,
        producer.poll,
        lambda: producer.send_offsets_to_transaction({("t", 0): 1}, None),
    ):
        with pytest.raises(ClosedError, match="closed"):
            call()
    producer.close()


def test_waits_in_callbacks_are_refused(made):
    producer = made()
    raised = []

    def called(_):
        for call in (producer.flush, lambda: producer.send("t", b"y").wait()):
            try:
                call()
            except TransactionStateError as error:
                raised.append(str(error))

    producer.send("t", b"x", on_delivery=called)
    producer.flush()
    assert len(raised) == 2
    assert all("callback" in each for each in raised)


def test_a_callback_that_fails_is_logged(made, caplog):
    producer = made()
    producer.send("t", b"x", on_delivery=lambda _: {}["missing"])
    producer.flush()
    assert "callback of a producer has failed" in caplog.text


def test_many_values(made, broker):
    producer = made(batch_size=500)
    batches = producer.send_values("t", [b"%d" % n for n in range(1_000)] + [None])
    producer.flush()
    assert sum(batch.count for batch in batches) == 1_001
    assert all(batch.base_offset >= 0 for batch in batches)
    with pytest.raises(TypeError, match="not str"):
        producer.send_values("t", [b"x", "y"])


# -- surroundings -----------------------------------------------------------------------------


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}")
    with pytest.raises(UnreachableError, match="connection refused"):
        producer.send("t", b"x")
    producer.close()


def test_a_listener_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        producer = Producer(
            bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}",
            socket_connection_setup_timeout_ms=300,
            max_block_ms=10_000,
        )
        with pytest.raises(RequestTimeoutError, match="did not answer ApiVersions within"):
            producer.send("t", b"x")
        producer.close()


def test_tls_where_none_is_spoken(broker):
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, security_protocol="SSL")
    with pytest.raises(UnreachableError, match="TLS handshake"):
        producer.send("t", b"x")
    producer.close()


def test_a_full_buffer(made, broker):
    producer = made(batch_size=1_000, buffer_memory=5_000, max_block_ms=2_000)
    producer.send("t", b"x").wait()
    broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
    try:
        with pytest.raises(BufferFullError, match=r"buffer\.memory is 5,000"):
            collections.deque((producer.send("t", bytes(500)) for _ in range(100)), 0)
    finally:
        broker.heal()
    producer.flush()


def test_a_broker_that_does_not_read_keeps_nobody_waiting(made, broker):
    """The connection is not given up, however long the broker reads nothing."""
    producer = made(batch_size=1_000_000, socket_connection_setup_timeout_ms=100)
    producer.send("t", b"x").wait()
    before = broker.requests("ApiVersions")
    broker.pause()
    try:
        deliveries = [producer.send("t", bytes(900_000), partition=n % 2) for n in range(20)]
        with pytest.raises(RequestTimeoutError, match="not written after"):
            producer.flush(0.5)
    finally:
        broker.resume()
    producer.flush()
    assert all(each.offset >= 0 for each in deliveries)
    assert broker.requests("ApiVersions") == before


def test_a_signal_interrupts_the_wait(made, broker):
    producer = made()
    producer.send("t", b"x").wait()
    broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
    try:
        delivery = producer.send("t", b"x")
        main = threading.main_thread().ident
        timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        timer.join()
        with pytest.raises(RequestTimeoutError, match="not written after"):
            delivery.wait(0.01)
    finally:
        broker.heal()
    producer.flush()
    assert delivery.offset >= 0


@pytest.fixture
def without_collections():
    """Python only reports exceptions in finalizers: there, Ctrl-C would be lost."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def interrupt(number, frame):
    """A handler that raises, as that of a Spark session."""
    raise KeyboardInterrupt


@pytest.fixture(params=[signal.default_int_handler, interrupt])
def interrupt_handler(request):
    """A handler of SIGINT, which is installed. A Spark session of earlier tests may have left its own."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("without_collections")
def test_interrupted_calls_lose_and_spoil_nothing(made, broker, cluster, interrupt_handler):
    """Ctrl-C comes at random places, and the program goes on."""
    draw = random.Random(1)
    topic = f"interrupted-{interrupt_handler.__name__}"
    broker.create_topics({topic: 1})
    producer = made(batch_size=100)
    main = threading.main_thread().ident
    number = 0
    for _ in range(100):
        timer = threading.Timer(draw.random() * 0.01, signal.pthread_kill, (main, signal.SIGINT))
        with contextlib.suppress(KeyboardInterrupt):
            timer.start()
            for _ in range(20_000):
                number += 1
                producer.send(topic, b"%d" % number)
                if number % 3_000 == 0:
                    producer.flush()
        with contextlib.suppress(KeyboardInterrupt):
            timer.join()
        assert signal.getsignal(signal.SIGINT) is interrupt_handler
    producer.flush()
    batches = read_to_ends(cluster, {TopicPartition(topic, 0): 0})
    found = [int(each) for batch in batches for each in batch.values()]
    assert found == sorted(set(found))
    missing = number - len(found)
    assert 0 <= missing <= 100, "only sends that were interrupted"


def test_close_ends_in_time_and_fails_what_is_left(made, broker):
    producer = made()
    producer.send("t", b"x").wait()
    broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
    try:
        delivery = producer.send("t", b"x")
        producer.close(0.1)
    finally:
        broker.heal()
    assert isinstance(delivery.error, ClosedError)
    with pytest.raises(ClosedError, match="closed before the record"):
        delivery.wait()


def test_the_broker_restarts(made):
    with Broker(topics={"t": 1}) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"before").wait()
        broker.restart()
        assert producer.send("t", b"after").wait().offset == 1
        producer.close()


def test_a_child_process_cannot_use_it(made):
    producer = made()
    producer.send("t", b"x").wait()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            producer.send("t", b"y")
        except ClosedError as error:
            status = 0 if "before a fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    producer.send("t", b"z").wait()


def test_threads_share_a_producer(made):
    producer = made(batch_size=200, linger_ms=1)
    offsets = []

    def work():
        sent = [producer.send("t", b"x" * 50, partition=0) for _ in range(300)]
        offsets.extend(each.wait().offset for each in sent)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(offsets) == len(set(offsets)) == 1_200
    assert min(offsets) >= 0


def keepers():
    return sum(each.name == "odradek producer" for each in threading.enumerate())


def collect_until(is_done):
    """A keeper in the middle of its turn holds the object for a moment."""
    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline, "the keeper goes on"
        gc.collect()
        time.sleep(0.01)


def test_nobody_closes_it(broker):
    before = keepers()
    producer = Producer(bootstrap_servers=broker.bootstrap_servers)
    producers = [producer]
    producer.send("t", b"x").wait()
    del producer
    producers.clear()
    with pytest.warns(ResourceWarning, match="was not closed"):
        collect_until(lambda: keepers() == before)


def test_failures_are_told_once(made, broker):
    producer = made()
    broker.inject("Produce", "INVALID_RECORD", times=1)
    producer.send("t", b"x")
    with pytest.raises(NotDeliveredError, match=r"1 record was not written.*INVALID_RECORD"):
        producer.flush()
    producer.send("t", b"y")
    producer.flush()


def test_serializers(made, cluster):
    producer = made(**{"key.serializer": Long(), "value.serializer": json.dumps}, linger_ms=0)
    with pytest.raises(TypeError, match="a value is bytes or None, not str"):
        producer.send("t", 1)
    producer = made(key_serializer=Long(), value_serializer=Json())
    (before,) = offsets_at(cluster, [TopicPartition("t", 1)], LATEST).values()
    producer.send("t", {"a": 1}, key=7, partition=1).wait()
    producer.send("t", None, key=8, partition=1).wait()
    with pytest.raises(SerializationError, match="needs a number, not str"):
        producer.send("t", 1, key="x")
    batches = read_to_ends(cluster, {TopicPartition("t", 1): before})
    records = [record for batch in batches for record in batch]
    assert [(each.key[-1], each.value) for each in records] == [(7, b'{"a":1}'), (8, None)]
    assert len(producer.send_values("t", [{"b": 2}, None])) == 1
    with pytest.raises(TypeError, match="a serializer has a method serialize"):
        made(value_serializer=7)
