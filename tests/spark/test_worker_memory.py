"""The memory of Python workers while they read and write many records.

`make proofs ARGS=spark-memory` runs this with 50 million records for each kind of query. One task
at a time runs, so one worker handles all records of a query, or all of a step of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import defaultdict

import psutil
import pyarrow as pa
import pytest
from compat.lab.odradek_node import OdradekNode
from tests.spark.faults.drivers import is_worker
from tests.support.child import Child

from odradek.arrow.encoding import Rows, encode_records
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.spark.options import write_options
from odradek.spark.producing import Sender

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
]

ROWS = int(os.environ.get("ODRADEK_SPARK_MEMORY_ROWS", "2000000"))
BATCH_ROWS = 20_000
VALUE_BYTES = 100
MICRO_BATCHES = 20
PARTITIONS = 2
SAMPLE_SECONDS = 0.25
SAMPLES_MIN = 20
"""Fewer samples of a process say nothing about it."""
GROWTH_MAX = 1.1
SLACK_BYTES = 24 << 20
"""What the allocators of Arrow and of Python may keep in addition."""
MIB = 1 << 20

SETUP = """
import odradek.spark
from pyspark.sql.functions import length, sum
spark = odradek.spark.session("memory", master="local[1]")
options = {options}
"""
READ = """
rows = spark.read.format("odradek").options(**options, subscribe="source").load()
print(rows.select(sum(length("value"))).first()[0])
"""
STREAM = """
rows = spark.readStream.format("odradek").options(**options, subscribe="source")
rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger={limit}).load()
total = 0
def add(batch, _):
    global total
    total += batch.select(sum(length("value"))).first()[0]
writer = rows.writeStream.foreachBatch(add).option("checkpointLocation", {checkpoint!r})
writer.trigger(availableNow=True).start().awaitTermination()
print(total)
"""
WRITE = """
rows = spark.range({rows}, numPartitions=1).selectExpr("repeat('x', {size}) AS value")
options |= {{"topic": "target", "compression.type": "zstd"}}
rows.write.format("odradek").mode("append").options(**options).save()
print({total})
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with OdradekNode(directory=tmp_path_factory.mktemp("node"), settings=settings) as running:
        with Cluster(running.bootstrap) as cluster:
            topics = [NewTopic(each, PARTITIONS, 1) for each in ("source", "target")]
            for made in create_topics(cluster, topics).values():
                assert not isinstance(made, Exception), made
            fill(cluster, running.bootstrap)
        yield running


def fill(cluster: Cluster, servers: str) -> None:
    """Write the same batch again and again."""
    options = write_options({"kafka.bootstrap.servers": servers, "compression.type": "zstd"})
    values = [str(number).rjust(VALUE_BYTES).encode() for number in range(BATCH_ROWS)]
    (records,) = encode_records(Rows(pa.array(values, pa.binary())), 64 << 20)
    records = records.compressed(Codec.ZSTD)
    sender = Sender(cluster, options)
    now_ms = int(time.time() * 1000)
    partitions = [TopicPartition("source", index) for index in range(PARTITIONS)]
    for _ in range(ROWS // BATCH_ROWS // PARTITIONS):
        sender.send(dict.fromkeys(partitions, records), now_ms)
    sender.flush()


def sizes_of_workers(program: str) -> tuple[str, dict[int, list[int]]]:
    """Run a program, and return its output and the samples of its Python workers by process id."""
    samples: dict[int, list[int]] = defaultdict(list)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    with Child(command, environment=environment, talks=True) as process:
        driver = psutil.Process(process.pid)
        while process.runs:
            for each in driver.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if is_worker(each):
                        samples[each.pid].append(each.memory_info().rss)
            time.sleep(SAMPLE_SECONDS)
        assert process.wait() == 0, process.last_words
        return "\n".join(process.lines()).strip(), samples


@pytest.mark.parametrize("kind", ["broker", "stream", "write"])
def test_it_stays_the_same(node, tmp_path, kind, figures) -> None:
    total = ROWS * VALUE_BYTES
    options = {"kafka.bootstrap.servers": node.bootstrap}
    program = SETUP.format(options=options)
    if kind == "broker":
        program += READ
    elif kind == "stream":
        limit = ROWS // MICRO_BATCHES
        program += STREAM.format(limit=limit, checkpoint=str(tmp_path / "checkpoint"))
    else:
        program += WRITE.format(rows=ROWS, size=VALUE_BYTES, total=total)
    output, samples = sizes_of_workers(program)
    assert output == str(total)
    measured = {pid: each for pid, each in samples.items() if len(each) >= SAMPLES_MIN}
    assert measured
    for each in measured.values():
        early, late = max(each[: len(each) // 2]), max(each[len(each) // 2 :])
        figures.append(
            f"{ROWS} rows, {len(each)} samples of a process: at most {early // MIB} MiB in the "
            f"first half, {late // MIB} MiB in the second"
        )
        assert late <= early * GROWTH_MAX + SLACK_BYTES
