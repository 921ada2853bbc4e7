"""`format("odradek")` against a broker: it behaves like Spark's own connector with the same
options."""

from __future__ import annotations

import json
import time

import pytest
from compat.lab.odradek_node import OdradekNode
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, repeat, when

from odradek.client.admin.topics import NewTopic, create_topics, delete_records
from odradek.client.cluster import Cluster
from odradek.client.commits import fetch_offsets
from odradek.model import topic_partition

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


@pytest.fixture
def reader(spark, servers):
    """A batch reader with options."""

    def read(**options):
        source = spark.read.format("odradek").option("kafka.bootstrap.servers", servers)
        return source.options(**options).load()

    return read


@pytest.fixture
def run_stream(spark, servers, checkpoint):
    """Reads a topic in a stream until all is read; gives the rows of each micro-batch."""

    def run(**options):
        batches = []
        source = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers)
        query = (
            source.options(**options)
            .load()
            .writeStream.foreachBatch(
                lambda rows, _: batches.append(
                    [(r.partition, r.offset, r.value.decode()) for r in rows.collect()]
                )
            )
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [sorted(rows) for rows in batches if rows]

    return run


def produce(servers, topic, records, **config):
    """By a client that is not ours: tuples (partition, value, timestamp in ms)."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **config})
    for partition, value, timestamp in records:
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def values(rows) -> list[str]:
    return sorted(row.value.decode() for row in rows.collect())


def test_rows_go_to_a_topic_and_come_back_as_they_were(spark, servers, reader, make_topic):
    topic = make_topic(partitions=3)
    rows = spark.createDataFrame(
        [
            ("a", b"1", [("h", b"x"), ("h", None)], None),
            (None, b"2", None, 2),
            ("ä", None, [], None),
            ("", b"", None, 0),
        ],
        "key string, value binary, headers array<struct<key:string,value:binary>>, partition int",
    )
    write = rows.write.format("odradek").mode("append").option("bootstrap.servers", servers)
    write.option("topic", topic).save()
    found = reader(subscribe=topic, includeHeaders="true")
    by_key = {row.key: row for row in found.collect()}
    assert by_key[b"a"].value == b"1"
    assert [(h.key, h.value) for h in by_key[b"a"].headers] == [("h", b"x"), ("h", None)]
    assert (by_key[None].value, by_key[None].partition) == (b"2", 2)
    assert (by_key["ä".encode()].value, by_key["ä".encode()].headers) == (None, None)
    assert (by_key[b""].value, by_key[b""].partition) == (b"", 0)
    assert {row.topic for row in by_key.values()} == {topic}
    assert {row.timestampType for row in by_key.values()} == {0}


def test_a_column_names_the_topic_and_other_clients_read_it(spark, servers, make_topic):
    one, two = make_topic(), make_topic(partitions=2)
    rows = spark.range(1000).select(
        when(col("id") % 2 == 0, one).otherwise(two).alias("topic"),
        col("id").cast("string").alias("key"),
        repeat(col("id").cast("string"), 50).alias("value"),
    )
    options = {"bootstrap.servers": servers, "kafka.compression.type": "zstd", "batch.size": "5000"}
    rows.write.format("odradek").mode("append").options(**options).save()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    consumer.assign([TopicPartition(t, p, 0) for t, p in ((one, 0), (two, 0), (two, 1))])
    found = {}
    while len(found) < 1000:
        for message in consumer.consume(1000, timeout=10):
            assert message.error() is None
            found[message.key().decode()] = (message.topic(), message.value().decode())
    consumer.close()
    assert found == {str(i): (one if i % 2 == 0 else two, str(i) * 50) for i in range(1000)}


def test_a_batch_reads_between_offsets_and_times(servers, reader, make_topic):
    topic = make_topic(partitions=2)
    produce(
        servers, topic, [(p, f"{p}-{i}", 1000 + i * HOUR_MS) for i in range(10) for p in (0, 1)]
    )
    everything = reader(subscribe=topic)
    assert everything.count() == 20
    assert everything.where("partition = 1").count() == 10
    some = everything.where("partition = 1 AND offset > 7 AND timestamp >= '1970-01-01 09:00:00'")
    assert some.rdd.getNumPartitions() == 1
    assert values(some) == ["1-9"]
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
    assert {r.timestamp.minute for r in timed.select("timestamp").collect()} == {0}
    with pytest.raises(PySparkException, match=r"no record of .* is at or after the starting time"):
        reader(subscribe=topic, startingTimestamp=str(10**15)).count()
    late = {"startingOffsetsByTimestampStrategy": "latest", "startingTimestamp": str(10**15)}
    assert reader(subscribe=topic, **late).count() == 0


def test_splits_are_as_many_as_asked_for(servers, reader, make_topic):
    topic = make_topic(partitions=2)
    produce(servers, topic, [(0, str(i), 1) for i in range(90)] + [(1, "x", 1)] * 10)
    for options, parts in (
        ({}, 2),
        ({"minPartitions": "10"}, 10),
        ({"maxRecordsPerPartition": "40"}, 4),
    ):
        rows = reader(subscribe=topic, **options)
        assert rows.rdd.getNumPartitions() == parts
        assert rows.select("partition", "offset").distinct().count() == 100


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(servers, reader, make_topic, codec):
    topic = make_topic()
    expected = [f"{i}-{'x' * (i % 300)}" for i in range(2000)]
    produce(servers, topic, [(0, v, 1) for v in expected], **{"compression.type": codec})
    assert values(reader(subscribe=topic)) == sorted(expected)


@pytest.mark.usefixtures("transactions")
def test_only_committed_records_are_read_when_asked(servers, reader, make_topic):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"id-{topic}"})
    producer.init_transactions(30)
    for value, end in (("a", producer.abort_transaction), ("b", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        end(30)
    assert values(reader(subscribe=topic)) == ["a", "b"]
    assert values(reader(subscribe=topic, **{"kafka.isolation.level": "read_committed"})) == ["b"]


def test_timestamps_of_the_log_are_told_apart(servers, reader, make_topic):
    topic = make_topic(message_timestamp_type="LogAppendTime")
    produce(servers, topic, [(0, "x", 1000)])
    (row,) = reader(subscribe=topic).collect()
    assert row.timestampType == 1
    assert row.timestamp.year > 2000


def test_a_stream_keeps_its_limit_and_its_place_and_shows_its_lag(
    servers, cluster, make_topic, run_stream
):
    topic = make_topic(partitions=2)
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "groupId": f"group-{topic}",
    }
    produce(servers, topic, [(i % 2, f"{i}", 1) for i in range(10)])
    batches = run_stream(**options)
    assert [len(rows) for rows in batches] == [4, 4, 2]
    assert sorted(row for rows in batches for row in rows) == sorted(
        (i % 2, i // 2, str(i)) for i in range(10)
    )
    produce(servers, topic, [(0, "later", 1)])
    assert run_stream(**options) == [[(0, 5, "later")]]
    assert run_stream(**options) == []
    committed = fetch_offsets(cluster, f"group-{topic}")
    assert {tp.partition: c.offset for tp, c in committed.items()} == {0: 6, 1: 5}


def test_a_stream_starts_at_the_end_unless_told(servers, make_topic, run_stream):
    topic = make_topic()
    produce(servers, topic, [(0, "before", 1)])
    assert run_stream(subscribe=topic) == []
    produce(servers, topic, [(0, "after", 1)])
    assert run_stream(subscribe=topic) == [[(0, 1, "after")]]


def test_new_topics_of_a_pattern_are_read_from_their_beginning(servers, make_topic, run_stream):
    first = make_topic()
    pattern = first.rpartition("-0-")[0] + "-.*"
    produce(servers, first, [(0, "a", 1)])
    assert run_stream(subscribePattern=pattern, startingOffsets="earliest") == [[(0, 0, "a")]]
    produce(servers, make_topic(), [(0, "b", 1)])
    assert run_stream(subscribePattern=pattern) == [[(0, 0, "b")]]


def test_lost_records_are_an_error_or_a_warning(
    servers, cluster, reader, make_topic, run_stream, capfd
):
    topic = make_topic()
    produce(servers, topic, [(0, str(i), 1) for i in range(10)])
    assert run_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    produce(servers, topic, [(0, str(i), 1) for i in range(10, 20)])
    tp = topic_partition.TopicPartition(topic, 0)
    assert not isinstance(delete_records(cluster, {tp: 15})[tp], Exception)
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 5}})}
    with pytest.raises(PySparkException, match=r"offsets 5 to 14 of .* no longer exist"):
        reader(**options).count()
    assert values(reader(**options, failOnDataLoss="false")) == [str(i) for i in range(15, 20)]
    with pytest.raises(PySparkException, match=r"offsets 10 to 14 of .* no longer exist"):
        run_stream(subscribe=topic)
    found = run_stream(subscribe=topic, failOnDataLoss="false")
    assert [row[2] for rows in found for row in rows] == [str(i) for i in range(15, 20)]


def test_a_stream_outlives_a_broker_that_is_killed(spark, checkpoint, tmp_path):
    with OdradekNode(directory=tmp_path / "node") as node, Cluster(node.bootstrap) as cluster:
        create_topics(cluster, [NewTopic("source", 2, 1), NewTopic("target", 2, 1)])
        rows = spark.readStream.format("odradek").option("bootstrap.servers", node.bootstrap)
        query = (
            rows.options(subscribe="source", startingOffsets="earliest")
            .load()
            .selectExpr("value as key", "value")
            .writeStream.format("odradek")
            .option("bootstrap.servers", node.bootstrap)
            .options(topic="target", checkpointLocation=checkpoint)
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        target = spark.read.format("odradek").option("bootstrap.servers", node.bootstrap)
        target = target.option("subscribe", "target")
        sent: list[str] = []
        for _ in range(3):
            new = [str(len(sent) + i) for i in range(50)]
            produce(node.bootstrap, "source", [(i % 2, value, 1) for i, value in enumerate(new)])
            sent += new
            deadline = time.monotonic() + 60
            while set(values(target.load())) != set(sent):
                assert query.exception() is None
                assert time.monotonic() < deadline
            node.kill()
            node.start()
        query.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOfset": "earliest", "subscribe": "x"}, "Did you mean startingOffsets"),
        ({"subscribe": "no-such-topic"}, "no-such-topic.*UNKNOWN_TOPIC_OR_PARTITION"),
        ({"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1"}, "cannot connect to 127"),
    ],
)
def test_unreadable_files_are_reported(reader, options, message):
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        reader(**options).count()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'k' as key", {"topic": "x"}, "a column 'value' is needed"),
        ("'v' as value", {}, "no topic: give the option"),
        ("1 as value", {"topic": "x"}, "column 'value' must be of type binary or string"),
        ("'v' as value, 7 as partition", {"topic": "TOPIC"}, "has partitions 0 to 0, not 7"),
        ("'v' as value, string(null) as topic", {}, "a row has no topic"),
    ],
)
def test_failed_writes_are_reported(spark, servers, make_topic, columns, options, message):
    if options.get("topic") == "TOPIC":
        options = {"topic": make_topic()}
    rows = spark.range(1).selectExpr(*columns.split(", "))
    write = rows.write.format("odradek").mode("append").option("bootstrap.servers", servers)
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        write.options(**options).save()
