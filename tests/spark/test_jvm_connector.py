"""Spark's own Kafka connector (JVM, `spark-sql-kafka-0-10`) against a broker of ours."""

from __future__ import annotations

import json

import pytest
from compat.lab.spark_connector import connector_jars
from compat.lab.toolchain import Missing
from confluent_kafka import Consumer, Producer, TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.java]

HOUR_MS = 3_600_000


@pytest.fixture(scope="module", autouse=True)
def jars():
    try:
        return connector_jars()
    except Missing as reason:
        pytest.skip(f"Spark's connector: {reason}")


@pytest.fixture
def reader(spark, servers):
    def read(**options):
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
        return source.options(**options).load()

    return read


@pytest.fixture
def stream(spark, servers):
    def read(**options):
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        return source.options(startingOffsets="earliest", **options).load()

    return read


def write(rows, servers, topic, **options):
    sink = rows.write.format("kafka").option("kafka.bootstrap.servers", servers)
    sink.option("topic", topic).options(**options).save()


def produce(servers, topic, records):
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for partition, value, timestamp in records:
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def values(rows) -> list[str]:
    return sorted(row.value.decode() for row in rows.select("value").collect())


def run_to_end(rows, servers, topic, checkpoint) -> list[int]:
    """Copies a stream to a topic until all is read; the rows of each micro-batch."""
    query = (
        rows.selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .options(topic=topic, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p.numInputRows for p in query.recentProgress if p.numInputRows]


def test_batch_write_and_read_with_headers(spark, servers, reader, make_topic):
    topic = make_topic(partitions=2)
    rows = spark.createDataFrame(
        [("a", b"1", [("h", b"x")]), (None, b"2", None), ("c", None, [])],
        "key string, value binary, headers array<struct<key:string,value:binary>>",
    )
    write(rows, servers, topic)
    found = {r.key: r for r in reader(subscribe=topic, includeHeaders="true").collect()}
    assert [(h.key, bytes(h.value)) for h in found[b"a"].headers] == [("h", b"x")]
    assert (found[None].value, found[None].headers) == (b"2", None)
    assert found[b"c"].value is None


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_the_java_client(spark, servers, reader, make_topic, codec):
    topic = make_topic(partitions=3)
    rows = spark.range(5000).selectExpr("string(id) as key", "repeat(string(id), 20) as value")
    write(rows, servers, topic, **{"kafka.compression.type": codec})
    assert values(reader(subscribe=topic)) == sorted(str(i) * 20 for i in range(5000))


def test_offsets_times_and_splits(servers, reader, make_topic):
    topic = make_topic(partitions=2)
    produce(
        servers, topic, [(p, f"{p}-{i}", 1000 + i * HOUR_MS) for i in range(10) for p in (0, 1)]
    )
    listed = reader(
        assign=json.dumps({topic: [0, 1]}),
        startingOffsets=json.dumps({topic: {"0": 8, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 1}}),
    )
    assert values(listed) == ["0-8", "0-9", "1-0"]
    timed = reader(
        subscribePattern=f"{topic[:-1]}.",
        startingTimestamp=str(1000 + 4 * HOUR_MS),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": 1001 + 5 * HOUR_MS, "1": 10**15}}),
    )
    assert values(timed) == ["0-4", "0-5", *(f"1-{i}" for i in range(4, 10))]
    split = reader(subscribe=topic, minPartitions="7")
    assert split.rdd.getNumPartitions() >= 7
    assert split.count() == 20


def test_streams_with_limits_and_restarts(servers, reader, stream, make_topic, checkpoint):
    source, target = make_topic(partitions=2), make_topic()
    produce(servers, source, [(i % 2, str(i), 1) for i in range(10)])
    rows = stream(subscribe=source, maxOffsetsPerTrigger="4")
    assert run_to_end(rows, servers, target, checkpoint) == [4, 4, 2]
    produce(servers, source, [(0, "later", 1)])
    assert run_to_end(rows, servers, target, checkpoint) == [1]
    assert values(reader(subscribe=target)) == sorted([*map(str, range(10)), "later"])


@pytest.mark.usefixtures("transactions")
def test_only_committed_records_are_streamed_when_asked(
    servers, reader, stream, make_topic, checkpoint
):
    source, target = make_topic(), make_topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": source})
    producer.init_transactions(30)
    for value, end in (("a", producer.abort_transaction), ("b", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(source, value)
        producer.flush(30)
        end(30)
    rows = stream(subscribe=source, **{"kafka.isolation.level": "read_committed"})
    run_to_end(rows, servers, target, checkpoint)
    assert values(reader(subscribe=target)) == ["b"]


def test_real_time_mode(servers, stream, make_topic, checkpoint):
    source, target = make_topic(), make_topic()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "rtm"})
    consumer.assign([TopicPartition(target, 0, 0)])
    query = (
        stream(subscribe=source)
        .selectExpr("upper(string(value)) as value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .options(topic=target, checkpointLocation=checkpoint)
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
    )
    try:
        for word in ("one", "two", "three"):
            produce(servers, source, [(0, word, 1)])
            message = consumer.poll(60)
            assert query.exception() is None
            assert message is not None
            assert message.value().decode() == word.upper()
    finally:
        query.stop()
        consumer.close()
