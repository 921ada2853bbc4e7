"""Exceptions begin with our sentence, and writers work in every thread.

The texts of errors are those of PySpark 4.3.
"""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.errors import PySparkException

from odradek.spark.sentences import own_sentence, sentence


def in_spark(test):
    """Marks a test that uses the session of all tests."""
    for mark in (pytest.mark.cluster, pytest.mark.long, pytest.mark.spark):
        test = mark(test)
    return test


def failed(action) -> str:
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)


@in_spark
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


@in_spark
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


QUERY = "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
PLAN = "\n SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1-2]\n"
OURS = """Traceback (most recent call last):
  File "/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 84, in f
    return reader.initialOffset()
  File "/site-packages/odradek/spark/resolution.py", line 200, in check_start
    raise ValueError(
ValueError: startingOffsets is 50 for t-0, but the partition ends at 0"""
THEIRS = """Traceback (most recent call last):
  File "/home/me/job.py", line 3, in double
    return 2 / x
           ~~^~~
ZeroDivisionError: division by zero"""


@pytest.mark.parametrize(
    ("text", "expected", "is_ours"),
    [
        (
            f"{QUERY}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed: {OURS}{PLAN}",
            "startingOffsets is 50 for t-0, but the partition ends at 0",
            True,
        ),
        (
            "An exception was thrown from the Python worker:\n"
            + OURS.replace("ValueError", "odradek.spark.typed.UndecodableValueError"),
            "startingOffsets is 50 for t-0, but the partition ends at 0",
            True,
        ),
        (
            f"{QUERY}[PYTHON] {THEIRS}{PLAN}",
            'ZeroDivisionError: division by zero\n  File "/home/me/job.py", line 3, in double\n'
            "    return 2 / x",
            False,
        ),
        (
            f"{THEIRS}\n\nDuring handling of the above exception, another exception occurred:\n\n"
            f"{OURS}\nand says more\n SQLSTATE: 38000\n\nJVM stacktrace:\norg.apache\n\tat a.b(c)",
            "startingOffsets is 50 for t-0, but the partition ends at 0\nand says more",
            True,
        ),
        (
            f"{QUERY}[USER_RAISED_EXCEPTION] this value is bad SQLSTATE: P0001{PLAN}",
            "[USER_RAISED_EXCEPTION] this value is bad",
            False,
        ),
        ("java.lang.X: no memory\n\tat a.b(c)\n\tat d.e(f)", "java.lang.X: no memory", False),
        ("Traceback (most recent call last):\n  cut", "Traceback (most recent call last):\n  cut", False),
        ("", "", False),
    ],
)  # fmt: skip
def test_the_sentence_of_an_error(text, expected, is_ours):
    assert sentence(text) == expected
    assert own_sentence(text) == (expected if is_ours else None)
