"""A streaming query starts quickly: its new process imports only what it needs to plan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

import odradek.spark
from odradek.spark import query_metrics

CODE = """
import json, sys
{first}
before = set(sys.modules)
from odradek.spark.source import FilteringDataSource
source = FilteringDataSource(json.loads(sys.argv[1]))
{then}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
READ = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
WRITE = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
DECODING = ("batches", "columns", "dead_letters", "fetching", "segment_reading", "typed")
WRITING = ("encoding", "producing", "topic_writer", "transactional", "write_schema", "writers")
SESSION = ("distribution", "launch", "query_metrics")
HTTP = ("http.client", "ssl", "urllib.request")
SLOW = ("pyarrow.compute", *HTTP)
"""Libraries that take some time, and that PySpark does not import."""


def imported(options: Mapping[str, str], first: str, then: str) -> set[str]:
    """What a new process imports in addition, in which Spark calls the source."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(first=first, then=then), json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def ours(*names: str) -> set[str]:
    return {f"odradek.spark.{name}" for name in names}


@pytest.mark.parametrize("more", [{}, {"includeHeaders": "true"}])
def test_a_process_that_plans_a_stream_does_not_import_what_tasks_need(more):
    runner = "import pyspark.sql.streaming.python_streaming_source_runner"
    found = imported({**READ, **more}, runner, "source.streamReader(source.schema())")
    assert ours("readers") <= found
    assert found.isdisjoint({*SLOW, *ours(*DECODING, *WRITING, *SESSION)})


def test_a_process_that_reads_a_split_does_not_import_what_writes_need():
    then = "source.reader(source.schema()); import odradek.spark.fetching"
    found = imported(READ, "import pyspark.worker", then)
    assert found.isdisjoint({*HTTP, *ours("typed", *WRITING, *SESSION)})


def test_a_process_that_writes_does_not_import_what_reads_need():
    schema = "StructType([StructField('value', BinaryType())])"
    then = f"from pyspark.sql.types import *; source.writer({schema}, False)"
    found = imported(WRITE, "import pyspark.worker", then)
    assert ours("writers") <= found
    assert found.isdisjoint({*HTTP, *ours("columns", "dead_letters", "fetching", *SESSION)})


def test_typed_values_need_no_http_without_a_schema_registry():
    typed = {**READ, "valueFormat": "json", "valueSchema": '{"type": "struct", "fields": []}'}
    found = imported(typed, "import pyspark.worker", "source.schema()")
    assert ours("typed") <= found
    assert found.isdisjoint({*HTTP, *ours("dead_letters", "fetching", "writers")})


def test_the_functions_of_a_session_are_imported_when_they_are_used():
    assert odradek.spark.export_metrics is query_metrics.export_metrics
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        odradek.spark.none  # noqa: B018
