"""Exceptions begin with our sentence, and writers work in every thread."""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.errors import PySparkException

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.spark]


def failed(action) -> str:
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)


def test_an_exception_begins_with_the_sentence(spark, servers, make_topic, checkpoint):
    topic = make_topic()
    server = {"kafka.bootstrap.servers": servers}

    def read(**options):
        return spark.read.format("odradek").options(**server, **options).load()

    text = failed(lambda: read(subscribe=topic, startingOfsets="latest"))
    assert text.startswith('unknown option "startingofsets". Did you mean startingOffsets?\n')
    text = failed(lambda: read(subscribe="nowhere").count())
    assert text.startswith("topic nowhere: There is no such topic")
    far = json.dumps({topic: {"0": 50}})
    rows = spark.readStream.format("odradek").options(**server, subscribe=topic).option(
        "startingOffsets", far
    )  # fmt: skip
    query = rows.load().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    text = failed(query.awaitTermination)
    assert text.startswith(f"startingOffsets is 50 for {topic}-0, but the partition ends at 0")


def test_writers_work_in_a_second_thread(spark, servers, make_topic, checkpoint):
    topic, copy = make_topic(), make_topic()
    server = {"kafka.bootstrap.servers": servers}
    source = spark.readStream.format("odradek").options(**server, subscribe=topic)
    errors = []

    def write():
        try:
            rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
            rows.write.format("odradek").options(**server, topic=topic).mode("append").save()
            sink = source.option("startingOffsets", "earliest").load().writeStream
            sink = sink.format("odradek").options(**server, topic=copy)
            sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            sink.start().awaitTermination()
        except Exception as error:  # noqa: BLE001  (the test shows it)
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert errors == []
    for each in (topic, copy):
        rows = spark.read.format("odradek").options(**server, subscribe=each).load().collect()
        assert sorted(row.value for row in rows) == [b"0", b"1", b"2"]
