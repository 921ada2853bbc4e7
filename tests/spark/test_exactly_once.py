"""Exactly-once writes: every step of a micro-batch may fail, and nothing is lost or written twice.

`python -m tests.spark.faults` kills drivers and brokers at these steps.
"""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from tests.spark.faults.histories import committed
from tests.spark.faults.source import FaultySource

import odradek.spark
from odradek.spark import markers

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("transactions")]

ROUNDS = (
    # action, step, distribution
    ("worker", "task-middle", "tasks"),
    ("error", "end-sent", "driver"),
)


def test_a_query_that_fails_at_any_step_writes_every_row_once(
    spark, servers, cluster, make_topic, checkpoint, tmp_path
):
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    producer = Producer({"bootstrap.servers": servers})
    numbers = itertools.count()
    spark.dataSource.register(FaultySource)
    options = {"kafka.bootstrap.servers": servers, "topic": target}

    def run(distribution):
        rows = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers)
        rows = rows.options(subscribe=source, startingOffsets="earliest").load()
        rows = rows.select("key", "value")
        if distribution == "tasks":
            rows = odradek.spark.by_partition(rows, options)
        query = (
            rows.writeStream.format("faulty")
            .options(checkpointLocation=checkpoint, faults=str(tmp_path), **options)
            .options(deliveryGuarantee="exactly-once")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    for action, step, distribution in ROUNDS:
        for number in itertools.islice(numbers, 10):
            producer.produce(source, str(number), str(number))
        producer.flush(30)
        (tmp_path / f"armed-{step}").write_text(action)
        with pytest.raises(PySparkException):
            run(distribution)
        assert (tmp_path / f"reached-{step}").exists(), step
    query = run("tasks")
    wanted = sorted(str(number).encode() for number in range(10 * len(ROUNDS)))
    assert sorted(committed(servers, target, 2)) == wanted
    marker = markers.last(cluster, str(query.id))
    assert marker is not None
    (offsets,) = marker.offsets
    assert sum(offsets[source].values()) == len(wanted)


def test_a_batch_is_written_whole_or_not_at_all(spark, servers, make_topic):
    topic = make_topic(partitions=2)
    options = {"kafka.bootstrap.servers": servers, "topic": topic}

    def write(rows, **more):
        write = rows.write.format("odradek").mode("append").options(**options)
        write.options(deliveryGuarantee="exactly-once", **more).save()

    good = spark.range(100, numPartitions=2).selectExpr("string(id) AS key", "string(id) AS value")
    bad = good.selectExpr("key", "value", "IF(key = '99', 7, 0) AS partition")
    for frame in (bad, odradek.spark.by_partition(bad, options)):
        with pytest.raises(PySparkException, match="has partitions 0 to 1, not 7"):
            write(frame)
    assert committed(servers, topic, 2) == []
    for version in (3, 3, 2):  # as after restarts of a query with foreachBatch
        write(good, txnAppId=topic, txnVersion=version)
    assert sorted(committed(servers, topic, 2)) == sorted(str(i).encode() for i in range(100))


def test_tasks_that_write_to_the_same_partitions_share_their_sequence_numbers(
    spark, servers, make_topic
):
    topic = make_topic(partitions=2)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "batch.size": "500"}
    rows = spark.range(2000, numPartitions=4).selectExpr("string(id) AS key", "string(id) AS value")
    prepared = odradek.spark.by_partition(rows, options)
    for _ in range(2):  # such a frame may be written again
        prepared.write.format("odradek").mode("append").options(**options).save()
    wanted = sorted(str(i).encode() for i in range(2000) for _ in range(2))
    assert sorted(committed(servers, topic, 2)) == wanted
