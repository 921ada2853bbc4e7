"""A query changes from Spark's Kafka connector to ours, from its checkpoint: each record is copied once."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab.spark_connector import connector_jars
from compat.lab.toolchain import Missing

from odradek.spark.adoption import adopt

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture(scope="module", autouse=True)
def jars():
    try:
        return connector_jars()
    except Missing as reason:
        pytest.skip(f"Spark's connector: {reason}")


def send(spark, servers, topic, first, count):
    rows = spark.range(first, first + count).selectExpr(
        f"'{topic}' AS topic", "string(id) AS key", "string(id) AS value"
    )
    rows.write.format("odradek").mode("append").option("kafka.bootstrap.servers", servers).save()


def copied(spark, servers, source, sink, topics, target, checkpoint):
    """Copies what is there, with a window that counts, in the formats; returns the batches' numbers."""
    read = spark.readStream.format(source).option("kafka.bootstrap.servers", servers)
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "50",
        "subscribe": ",".join(topics),
    }
    rows = read.options(**options).load().dropDuplicates(["topic", "key"])
    writer = rows.select("key", "value").writeStream.format(sink)
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", target)
    if sink == "odradek":
        writer = writer.option("deliveryGuarantee", "exactly-once")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return [each.batchId for each in query.recentProgress if each.numInputRows]


@pytest.mark.slow("eight micro-batches of Spark's own connector")
@pytest.mark.usefixtures("transactions")
def test_a_query_on_two_topics_after_batch_7(spark, servers, cluster, make_topic, tmp_path):
    topics, target = [make_topic(partitions=2), make_topic(partitions=3)], make_topic()
    for topic in topics:
        send(spark, servers, topic, 0, 200)
    old, new = tmp_path / "old", tmp_path / "new"
    copy = (spark, servers)
    numbers = copied(*copy, "kafka", "kafka", topics, target, str(old))
    assert numbers == [*range(len(numbers))]
    last = numbers[-1]
    assert last >= 7
    for topic in topics:
        send(spark, servers, topic, 150, 150)  # fifty of these are in the state of the query
    adopted = adopt(cluster, Path(old), Path(new))
    assert (adopted.batch, len(adopted.offsets[0])) == (last, 5)
    numbers = copied(*copy, "odradek", "odradek", topics, target, str(new))
    assert numbers[0] == last + 1
    found = spark.read.format("odradek").option("kafka.bootstrap.servers", servers)
    found = found.options(**{"subscribe": target, "kafka.isolation.level": "read_committed"}).load()
    values = sorted(int(bytes(row.value)) for row in found.select("value").collect())
    assert values == sorted([*range(300)] * 2)
