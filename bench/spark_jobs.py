"""The jobs of `bench.spark`, and the rows that they read and write.

The values are cut from JSON events (`bench.payloads`), so that codecs can compress them.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.figures import OURS, THEIRS
from bench.payloads import SEED, events
from odradek.spark import by_partition

TEXT_BYTES = 256 << 10
"""The size of the text from which values are cut."""
SOURCE_BATCH_BYTES = "65536"
"""The size of the batches of the topics that are read."""
TUNED = {"kafka.linger.ms": "20", "kafka.batch.size": "262144"}
"""Settings with which Spark's connector writes faster than with its defaults."""
JSON_SCHEMA = "id BIGINT, name STRING, price DOUBLE, sold BOOLEAN, at TIMESTAMP"
JSON_ROW = (
    "to_json(named_struct('id', id, 'name', concat('name ', id), 'price', id / 7, "
    "'sold', id % 2 = 0, 'at', timestamp_millis(1700000000000 + id))) AS value"
)

Job = Callable[[], object]


@dataclass(frozen=True)
class Sizes:
    """A distribution of the sizes of values."""

    title: str
    expression: str
    """The size in bytes, as SQL."""
    records: int
    """The number of records of a topic: about 150 MB."""


SIZES = (
    Sizes("100 B", "100", 1_500_000),
    Sizes("1 KB", "1000", 300_000),
    Sizes("40–160 B", "40 + pmod(hash(id), 121)", 1_500_000),
    Sizes(
        "long-tailed to 10 KB",
        "cast(least(10000, greatest(40, exp(5.0D + 1.1D * randn(7)))) as int)",
        600_000,
    ),
)
CODECS = ("none", "lz4", "zstd")


@dataclass(frozen=True)
class Rival:
    """A job of ours beside one of Spark's connector."""

    name: str
    ours: Job
    theirs: Job
    limit: float | None = None
    """The smallest ratio of the rows per second."""
    cpu_limit: float | None = None
    """The largest ratio of the processor time per row."""

    @property
    def jobs(self) -> dict[str, Job]:
        """The two jobs by role."""
        return {OURS: self.ours, THEIRS: self.theirs}


def rows(spark: SparkSession, sizes: Sizes, records: int) -> DataFrame:
    """Return records with a key of up to seven bytes and a value."""
    text = b"".join(events(random.Random(SEED), TEXT_BYTES))
    values = spark.range(records).withColumn("text", sf.lit(text))
    place = f"1 + pmod(hash(id, 1), {TEXT_BYTES - 10_000})"
    return values.selectExpr(
        "string(id) AS key", f"substring(text, {place}, {sizes.expression}) AS value"
    )


def fill(frame: DataFrame, servers: str, topic: str, codec: str) -> None:
    """Write a topic that will be read."""
    settings = {"bootstrap.servers": servers, "topic": topic, "compression.type": codec}
    writer = frame.write.format("odradek").mode("append").options(**settings)
    writer.option("batch.size", SOURCE_BATCH_BYTES).save()


def reads(spark: SparkSession, servers: str, topic: str, log_directory: str) -> list[list[Rival]]:
    """Return the jobs that read a topic: all rows, all rows in a stream, and the sum of sizes."""
    common = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    segments = common | {"readFrom": "segments", "logDirs": log_directory}

    def load(source: str, options: dict[str, str]) -> DataFrame:
        return spark.read.format(source).options(**options).load()

    def read(source: str, options: dict[str, str]) -> None:
        load(source, options).write.format("noop").mode("overwrite").save()

    def add(source: str, options: dict[str, str]) -> None:
        load(source, options).selectExpr("sum(length(value))").collect()

    def stream(source: str, options: dict[str, str]) -> None:
        frame = spark.readStream.format(source).options(**options, startingOffsets="earliest")
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.load().writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            query.awaitTermination()
            query.stop()

    found = []
    for title, job, limits in (
        ("read", read, (3.0, 2.5)),
        ("stream", stream, (3.0, 2.5)),
        ("read and sum", add, (2.3, 2.3)),
    ):
        theirs = partial(job, "kafka", common)
        places = (("segments", segments, limits[0], 0.5), ("the broker", common, limits[1], None))
        found.append(
            [
                Rival(
                    f"{title} from {place}", partial(job, "odradek", options), theirs, limit, most
                )
                for place, options, limit, most in places
            ]
        )
    return found


def writes(frame: DataFrame, servers: str, topic: str, codec: str) -> list[Rival]:
    """Return the jobs that append a frame to a topic."""
    common = {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "kafka.compression.type": codec,
    }

    def write(source: str, **options: str) -> None:
        frame.write.format(source).mode("append").options(**common, **options).save()

    def exactly_once() -> None:
        writer = by_partition(frame, common).write.format("odradek").mode("append")
        writer.options(**common, deliveryGuarantee="exactly-once").save()

    ours, tuned = partial(write, "odradek"), partial(write, "kafka", **TUNED)
    return [
        Rival("write", ours, partial(write, "kafka"), 1.6),
        Rival("write beside tuned", ours, tuned),
        Rival("exactly-once write beside tuned", exactly_once, tuned, 1.0),
    ]


def typed_reads(spark: SparkSession, servers: str, topic: str) -> list[Rival]:
    """Return the jobs that read JSON values of a topic as columns."""

    def read(source: str, **options: str) -> DataFrame:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
        return reader.options(subscribe=topic, **options).load()

    def use(frame: DataFrame) -> None:
        columns = frame.select("value.*")
        columns.agg(
            sf.sum("id"), sf.sum("price"), sf.max("name"), sf.count_if("sold"), sf.max("at")
        ).collect()

    def parsed(source: str) -> None:
        value = sf.from_json(sf.col("value").cast("string"), JSON_SCHEMA).alias("value")
        use(read(source).select(value))

    def typed() -> None:
        use(read("odradek", valueFormat="json", valueSchema=JSON_SCHEMA))

    third = 1 / 3
    return [
        Rival("typed JSON beside from_json", typed, partial(parsed, "kafka"), None, third),
        Rival(
            "typed JSON beside from_json of our source", typed, partial(parsed, "odradek"),
            None, third,
        ),
    ]  # fmt: skip
