"""A query whose topics, schema or checkpoint change between its runs continues, or says why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compat.lab.toolchain import free_port
from confluent_kafka import Producer
from pyspark.errors import PySparkException

from odradek.client.admin.topics import NewTopic, create_partitions, create_topics, delete_topics
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import IDS, from_json, ids_in, to_json

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def produce(servers, topic, partition, numbers):
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, json.dumps({"number": number, "text": "x"}), partition=partition)
    assert producer.flush(30) == 0


@pytest.fixture
def run(spark, servers, checkpoint):
    """Runs a query until it has read everything; gives the numbers that it read, in order."""

    def run(topic, schema="number INT", **options):
        found = []
        source = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers)
        source = source.options(subscribe=topic, startingOffsets="earliest")
        source = source.options(valueFormat="json", valueSchema=schema, **options)
        query = (
            source.load()
            .select("value.*")
            .writeStream.foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect())))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(found)

    return run


def changed(result):
    """Raises the errors of an administrative request."""
    for each in result.values():
        if isinstance(each, Exception):
            raise each


def test_partitions_that_are_added_and_a_schema_that_grows(run, servers, cluster, make_topic):
    topic = make_topic()
    produce(servers, topic, 0, [1, 2])
    assert run(topic) == [(1,), (2,)]
    create_partitions(cluster, topic, 2)
    produce(servers, topic, 0, [3])
    produce(servers, topic, 1, [4])
    assert run(topic, schema="number INT, text STRING") == [(3, "x"), (4, "x")]


def test_a_topic_that_is_created_again_is_detected_even_if_it_is_longer(
    run, servers, cluster, make_topic
):
    topic = make_topic()
    produce(servers, topic, 0, [1, 2])
    assert run(topic) == [(1,), (2,)]
    changed(delete_topics(cluster, [topic]))
    changed(create_topics(cluster, [NewTopic(topic, 1, 1)]))
    produce(servers, topic, 0, range(10, 20))
    with pytest.raises(PySparkException, match=f"topic {topic} was deleted and created again"):
        run(topic)
    assert run(topic, failOnDataLoss="false") == [(number,) for number in range(10, 20)]
    produce(servers, topic, 0, [20])
    assert run(topic) == [(20,)]


def test_a_topic_that_was_deleted_is_named(run, servers, cluster, make_topic):
    topic = make_topic()
    produce(servers, topic, 0, [1, 2])
    assert run(topic) == [(1,), (2,)]
    changed(delete_topics(cluster, [topic]))
    with pytest.raises(PySparkException, match=f"(?s){topic}.*UNKNOWN_TOPIC_OR_PARTITION"):
        run(topic)


def test_a_checkpoint_of_an_older_version_has_no_ids(run, servers, make_topic, checkpoint):
    topic = make_topic()
    produce(servers, topic, 0, [1, 2])
    assert run(topic) == [(1,), (2,)]
    for path in Path(checkpoint, "offsets").iterdir():
        *head, offsets = path.read_text().splitlines()
        without = {name: value for name, value in json.loads(offsets).items() if name != IDS}
        assert without != json.loads(offsets)
        path.write_text("\n".join([*head, json.dumps(without)]))
    produce(servers, topic, 0, [3])
    assert run(topic) == [(3,)]


def test_ids_are_in_checkpoints_and_are_no_offsets():
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b", 1): 7}
    nested = to_json(offsets, {"a": "12", "c": "34"})
    assert from_json(json.loads(json.dumps(nested))) == offsets
    assert ids_in(nested) == {"a": "12"}
    assert ids_in(to_json(offsets)) == {}


@pytest.fixture
def read_all(spark, checkpoint):
    """Reads everything, in a batch or a stream."""

    def read_all(streaming, options):
        if not streaming:
            return spark.read.format("odradek").options(**options).load().count()
        rows = spark.readStream.format("odradek").options(**options).load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        return writer.start().awaitTermination()

    return read_all


@pytest.mark.parametrize("streaming", [False, True])
def test_brokers_that_cannot_be_reached_are_one_message(read_all, streaming):
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "kafka.request.timeout.ms": "1000",
        "subscribe": "x",
    }
    with pytest.raises(PySparkException) as caught:
        read_all(streaming, options)
    text = str(caught.value)
    assert f"cannot connect to {options['kafka.bootstrap.servers']}" in text
    assert "Is it running?" in text
    assert text.count("Traceback") <= 1
    assert "\tat org.apache" not in text


@pytest.fixture
def write_all(spark, checkpoint):
    """Writes some rows, in a batch or a stream."""

    def write_all(streaming, options):
        if not streaming:
            rows = spark.range(1).selectExpr("string(id) AS value")
            return rows.write.format("odradek").mode("append").options(**options).save()
        rows = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
        writer = rows.writeStream.format("odradek").option("checkpointLocation", checkpoint)
        return writer.options(**options).start().awaitTermination()

    return write_all


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("streaming", [False, True])
def test_brokers_that_cannot_be_written_to_are_one_message(write_all, streaming, guarantee):
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "kafka.request.timeout.ms": "1000",
        "topic": "x",
        "deliveryGuarantee": guarantee,
    }
    with pytest.raises(PySparkException) as caught:
        write_all(streaming, options)
    text = str(caught.value)
    assert f"cannot connect to {options['kafka.bootstrap.servers']}" in text
    assert "Is it running?" in text
    assert text.count("Traceback") <= 1
    assert "\tat org.apache" not in text


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("1 AS value", {}, "column 'value' must be of type binary or string; it is int"),
        ("'v' AS value, 'x' AS partition", {}, "column 'partition' must be of type int"),
        ("'v' AS value", {"compression.typ": "lz4"}, r"Did you mean compression\.type\?"),
    ],
)
def test_a_stream_says_at_once_what_it_cannot_write(
    spark, servers, checkpoint, column, options, message
):
    rows = spark.readStream.format("rate").load().selectExpr(*column.split(", "))
    writer = rows.writeStream.format("odradek").option("kafka.bootstrap.servers", servers)
    writer = writer.options(topic="x", checkpointLocation=checkpoint, **options)
    with pytest.raises(PySparkException, match=message):
        writer.start().awaitTermination()
