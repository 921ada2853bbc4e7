"""The common part of the pipelines: a broker, Spark, topics with JSON values, and reconciliation.

Reconciliation compares the results of a pipeline with the data that was sent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import odradek.spark
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.producer import Producer
from odradek.demo import broker
from odradek.demo.spark_work import CONF

Line = tuple[str, object, object]
"""One comparison: a description, the expected value, and the value that was found."""


@dataclass(frozen=True)
class Places:
    """Reads and writes the topics of a pipeline."""

    spark: SparkSession
    servers: str
    output: Path

    def create(self, *topics: str, partitions: int = 2, **settings: str) -> None:
        """Create topics. Nothing is deleted by age, because the data is older than the topics.

        Raises:
            ClientError: a topic cannot be created.
        """
        configs = {"retention.ms": "-1"} | {k.replace("_", "."): v for k, v in settings.items()}
        with Cluster(self.servers) as cluster:
            new = [NewTopic(name, partitions, 1, configs) for name in topics]
            for made in create_topics(cluster, new).values():
                if isinstance(made, Exception):
                    raise made

    def send(self, topic: str, records: Iterable[tuple[str, str | None]]) -> int:
        """Write records of (key, value) to a topic, and return their number."""
        count = 0
        with Cluster(self.servers) as cluster, Producer(cluster) as producer:
            for key, value in records:
                encoded = None if value is None else value.encode()
                producer.send(topic, encoded, key=key.encode())
                count += 1
        return count

    def read(self, topic: str, schema: str | None = None) -> DataFrame:
        """Return the committed records of a topic, or with a schema the fields of JSON values."""
        source = self.spark.read.format("odradek").option("kafka.bootstrap.servers", self.servers)
        options = {"subscribe": topic, "isolation.level": "read_committed"}
        records = source.options(**options).load()
        return records if schema is None else parsed(records, schema)

    def stream(
        self,
        topic: str,
        schema: str | None = None,
        per_batch: int | None = None,
        group: str | None = None,
    ) -> DataFrame:
        """Return a topic as a stream from its beginning.

        A micro-batch has at most `per_batch` records. The query commits its progress to the
        consumer group `group`. If several queries read a topic, give each its own group.
        """
        source = self.spark.readStream.format("odradek")
        source = source.option("kafka.bootstrap.servers", self.servers)
        options = {"startingOffsets": "earliest", "isolation.level": "read_committed"}
        if per_batch is not None:
            source = source.option("maxOffsetsPerTrigger", per_batch)
        if group is not None:
            source = source.option("groupId", group)
        records = source.options(subscribe=topic, **options).load()
        return records if schema is None else parsed(records, schema)

    def checkpoint(self, name: str) -> str:
        """Return the directory of a query's checkpoint."""
        return str(self.output / "checkpoints" / name)

    def write(
        self, rows: DataFrame, topic: str, key: str | Column, *, to_the_end: bool = True
    ) -> StreamingQuery:
        """Start to write rows to a topic as JSON, exactly once.

        With `to_the_end` the query processes all records that are in the source now, and ends. This
        method waits for it.
        """
        writer = (
            as_json(rows, key)
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", topic)
            .option("deliveryGuarantee", "exactly-once")
            .option("checkpointLocation", self.checkpoint(topic))
        )
        if not to_the_end:
            return writer.trigger(processingTime="1 second").start()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return the fields of JSON values."""
    return records.select(sf.from_json(sf.col("value").cast("string"), schema).alias("v")).select(
        "v.*"
    )


def as_json(rows: DataFrame, key: str | Column) -> DataFrame:
    """Return records with a key, and the row as a JSON value."""
    column = sf.col(key) if isinstance(key, str) else key
    return rows.select(
        column.cast("string").alias("key"), sf.to_json(sf.struct("*")).alias("value")
    )


def differing(one: DataFrame, other: DataFrame) -> int:
    """Return how many rows are in only one of two frames with the same columns."""
    other = other.select(*one.columns)
    return one.exceptAll(other).count() + other.exceptAll(one).count()


def show(console: Console, lines: Iterable[Line]) -> int:
    """Print a table of what is reconciled. Return 0 if all lines agree, otherwise 1."""
    table = Table("reconciled", "expected", "found")
    is_exact = True
    for what, expected, found in lines:
        table.add_row(what, str(expected), str(found), style="" if expected == found else "red")
        is_exact &= expected == found
    console.print(table)
    return 0 if is_exact else 1


Run = Callable[[Console, Places, argparse.Namespace], list[Line]]


def command(
    name: str,
    run: Run,
    parser: argparse.ArgumentParser,
    check: Callable[[argparse.Namespace], None] = lambda options: None,
) -> int:
    """Run a pipeline with its own broker and Spark. Return 0 if its results reconcile.

    `check` checks the options before anything is started.
    """
    parser.add_argument("--output", type=Path, default=Path(f"{name}-output"))
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; remove it, or choose another --output")
    check(options)
    console = Console()
    running = broker.start(options.output / "broker")
    try:
        spark = odradek.spark.session(name, conf=CONF)
        try:
            places = Places(spark, running.servers, options.output)
            return show(console, run(console, places, options))
        finally:
            spark.stop()
    finally:
        running.stop()
