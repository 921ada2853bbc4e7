"""The sentence in errors of Spark, as PySpark 4.3 shows them."""

from __future__ import annotations

import pytest

from odradek.spark.sentences import own_sentence, sentence

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
        (f"{QUERY}[PYTHON] {THEIRS}{PLAN}", "ZeroDivisionError: division by zero", False),
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
