"""Tables of Arrow are written as `send` would write their rows, by both shells."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from odradek.client import Consumer, Producer, aio
from odradek.client.errors import BufferFullError, NoSuchTopicError, RecordTooLargeError
from odradek.client.serializers import Text
from odradek.testing import Broker

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topics({name: 3})
    return name


@pytest.fixture(params=["blocking", "asyncio"])
def write(request, broker):
    """Write a table, wait for all its batches, and return them."""

    def blocking(topic, table, partition=None, **options):
        with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
            batches = producer.send_arrow(topic, table, partition=partition)
            for batch in batches:
                producer.wait(batch, 60)
            return batches

    async def run(topic, table, partition, options):
        async with aio.Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
            batches = await producer.send_arrow(topic, table, partition=partition)
            for batch in batches:
                await producer.wait(batch)
            return batches

    def awaiting(topic, table, partition=None, **options):
        return asyncio.run(run(topic, table, partition, options))

    return blocking if request.param == "blocking" else awaiting


def read(broker, topic):
    """Return (key, value, headers) by partition."""
    found = {index: [] for index in range(3)}
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([(topic, index, 0) for index in found])
        left = sum(consumer.end_offsets(*((topic, index) for index in found)).values())
        while left:
            for each in consumer.poll(10) or ():
                found[each.partition].append((each.key, each.value, each.headers))
                left -= 1
    return found


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_keys_go_where_send_puts_them_and_keep_their_order(broker, topic, write, codec):
    keys = [b"k%d" % (number % 17) for number in range(2_000)]
    values = [None if number % 100 == 99 else b"%d" % number for number in range(2_000)]
    options = {"batch_size": 5_000, "compression_type": codec}
    batches = write(topic, pa.table({"key": keys, "value": values}), **options)
    assert sum(batch.count for batch in batches) == 2_000
    assert all(batch.error is None and batch.base_offset >= 0 for batch in batches)
    by_arrow = read(broker, topic)
    other = f"{topic}-send"
    broker.create_topics({other: 3})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in zip(keys, values, strict=True):
            producer.send(other, value, key=key)
    assert by_arrow == read(broker, other)


def test_values_without_keys_headers_and_a_partition(broker, topic, write):
    headers = pa.array(
        [[("a", b"1"), ("b", None)], []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    write(topic, pa.record_batch({"value": ["x", "ü"], "headers": headers}), partition=2)
    found = read(broker, topic)
    assert found[2] == [
        (None, b"x", (("a", b"1"), ("b", None))),
        (None, "ü".encode(), ()),
    ]
    write(topic, pa.table({"value": pa.chunked_array([[b"1"], [b"2", b"3"]])}))
    added = [each[1] for some in read(broker, topic).values() for each in some][-5:]
    assert {b"1", b"2", b"3"} <= set(added)
    assert write(topic, pa.table({"value": pa.array([], pa.binary())})) == []


@pytest.mark.parametrize(
    ("table", "error", "text"),
    [
        ([b"1"], TypeError, "a table of Arrow is needed, not list"),
        ({"values": [b"1"]}, ValueError, "they must be value"),
        ({"value": [b"1"], "partition": [1]}, ValueError, "they must be value"),
        ({"value": [{"a": 1}]}, ValueError, "no column of bytes or texts"),
        ({"value": [bytes(2_000)]}, RecordTooLargeError, "max.request.size is 1,000"),
    ],
)
def test_wrong_tables(write, table, error, text):
    with pytest.raises(error, match=text):
        write("t", pa.table(table) if isinstance(table, dict) else table, max_request_size=1_000)


def test_other_errors(write):
    table = pa.table({"value": [b"1"]})
    with pytest.raises(NoSuchTopicError):
        write("t", table, partition=2)
    with pytest.raises(ValueError, match="serializers"):
        write("t", table, value_serializer=Text())


def test_a_full_buffer(broker, write):
    broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
    table = pa.table({"value": [bytes(500)] * 100})
    options = {"batch_size": 1_000, "buffer_memory": 5_000, "max_block_ms": 2_000}
    try:
        with pytest.raises(BufferFullError, match=r"buffer\.memory is 5,000"):
            write("t", table, **options)
    finally:
        broker.heal()
