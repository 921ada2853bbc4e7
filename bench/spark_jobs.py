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


@dataclass(frozen=True, eq=False)
class Job:
    """A job that reads a topic, or appends to a topic of its own."""

    run: Callable[[str], object]
    """Runs the job with the name of the topic."""
    writes: bool = False
    """Whether it writes: then each run needs a new topic."""


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


def reads(spark: SparkSession, servers: str, log_directory: str) -> list[list[Rival]]:
    """Return the jobs that read a topic: all rows, all rows in a stream, and the sum of sizes."""
    common = {"kafka.bootstrap.servers": servers}
    segments = common | {"readFrom": "segments", "logDirs": log_directory}

    def load(source: str, options: dict[str, str]) -> DataFrame:
        return spark.read.format(source).options(**options).load()

    def read(source: str, options: dict[str, str], topic: str) -> None:
        load(source, options | {"subscribe": topic}).write.format("noop").mode("overwrite").save()

    def add(source: str, options: dict[str, str], topic: str) -> None:
        load(source, options | {"subscribe": topic}).selectExpr("sum(length(value))").collect()

    def stream(source: str, options: dict[str, str], topic: str) -> None:
        frame = spark.readStream.format(source).options(**options, subscribe=topic)
        frame = frame.option("startingOffsets", "earliest")
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
        theirs = Job(partial(job, "kafka", common))
        places = (("segments", segments, limits[0], 0.5), ("the broker", common, limits[1], None))
        found.append(
            [
                Rival(f"{title} from {place}", ours, theirs, limit, most)
                for place, ours, limit, most in (
                    (place, Job(partial(job, "odradek", options)), limit, most)
                    for place, options, limit, most in places
                )
            ]
        )
    return found


def writes(frame: DataFrame, servers: str, codec: str) -> list[Rival]:
    """Return the jobs that append a frame to a topic."""
    common = {"kafka.bootstrap.servers": servers, "kafka.compression.type": codec}

    def write(source: str, options: dict[str, str], topic: str) -> None:
        writer = frame.write.format(source).mode("append").options(**common, **options)
        writer.option("topic", topic).save()

    def exactly_once(topic: str) -> None:
        options = common | {"topic": topic}
        writer = by_partition(frame, options).write.format("odradek").mode("append")
        writer.options(**options, deliveryGuarantee="exactly-once").save()

    ours = Job(partial(write, "odradek", {}), writes=True)
    theirs = Job(partial(write, "kafka", {}), writes=True)
    tuned = Job(partial(write, "kafka", TUNED), writes=True)
    in_transaction = Job(exactly_once, writes=True)
    return [
        Rival("write", ours, theirs, 1.6),
        Rival("write beside tuned", ours, tuned),
        Rival("exactly-once write beside tuned", in_transaction, tuned, 1.0),
    ]


def typed_reads(spark: SparkSession, servers: str) -> list[Rival]:
    """Return the jobs that read JSON values of a topic as columns."""

    def read(source: str, topic: str, **options: str) -> DataFrame:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
        return reader.options(subscribe=topic, **options).load()

    def use(frame: DataFrame) -> None:
        columns = frame.select("value.*")
        columns.agg(
            sf.sum("id"), sf.sum("price"), sf.max("name"), sf.count_if("sold"), sf.max("at")
        ).collect()

    def parsed(source: str, topic: str) -> None:
        value = sf.from_json(sf.col("value").cast("string"), JSON_SCHEMA).alias("value")
        use(read(source, topic).select(value))

    def typed(topic: str) -> None:
        use(read("odradek", topic, valueFormat="json", valueSchema=JSON_SCHEMA))

    third = 1 / 3
    ours = Job(typed)
    theirs, of_our_source = Job(partial(parsed, "kafka")), Job(partial(parsed, "odradek"))
    return [
        Rival("typed JSON beside from_json", ours, theirs, None, third),
        Rival("typed JSON beside from_json of our source", ours, of_our_source, None, third),
    ]
