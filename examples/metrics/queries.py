"""The streaming queries, and the batch query that reconciles their results.

    metrics ── windows of five seconds by metric ── metrics.windows ── rules ── metrics.alerts

Both queries write exactly once, so each window is in `metrics.windows` once, and each alert in
`metrics.alerts` once, although the queries stop and start again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from examples.metrics.sampling import CLOCK

METRICS, WINDOWS, ALERTS = "metrics", "metrics.windows", "metrics.alerts"
SAMPLE = "name STRING, time BIGINT, value DOUBLE"
WINDOW = "name STRING, start TIMESTAMP, samples BIGINT, mean DOUBLE, max DOUBLE"
ALERT = "name STRING, start TIMESTAMP, mean DOUBLE, rule STRING"
WINDOW_LENGTH = "5 seconds"
LATENESS = "2 seconds"
RULES = {
    "system.cpu": 0.8,
    "system.memory": 0.9,
    "broker.cpu": 0.5,
    "broker.resident_bytes": 300e6,
}
"""There is an alert if the mean of a window is higher."""


@dataclass(frozen=True)
class Places:
    """Where the queries read and write."""

    spark: SparkSession
    servers: str
    output: Path

    def read(self, topic: str) -> DataFrame:
        """Return the committed records of a topic."""
        source = self.spark.read.format("odradek").option("kafka.bootstrap.servers", self.servers)
        return source.options(**{"subscribe": topic, "isolation.level": "read_committed"}).load()

    def stream(self, topic: str) -> DataFrame:
        """Return a topic as a stream from its beginning."""
        source = self.spark.readStream.format("odradek")
        source = source.option("kafka.bootstrap.servers", self.servers)
        options = {"startingOffsets": "earliest", "isolation.level": "read_committed"}
        return source.options(subscribe=topic, **options).load()

    def write(self, rows: DataFrame, topic: str, *, to_the_end: bool) -> StreamingQuery:
        """Start to write rows to a topic as JSON, with the name as key.

        With `to_the_end` the query ends when it has processed all records.
        """
        values = rows.select(sf.col("name").alias("key"), sf.to_json(sf.struct("*")).alias("value"))
        writer = (
            values.writeStream.format("odradek")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", topic)
            .option("deliveryGuarantee", "exactly-once")
            .option("checkpointLocation", str(self.output / "checkpoints" / topic))
        )
        if to_the_end:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="1 second").start()


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return the fields of JSON values."""
    return records.select(sf.from_json(sf.col("value").cast("string"), schema).alias("v")).select(
        "v.*"
    )


def windows(samples: DataFrame) -> DataFrame:
    """Return the windows of samples. They are complete when the watermark has passed their end."""
    timed = samples.withColumn("at", sf.timestamp_millis("time")).withWatermark("at", LATENESS)
    grouped = timed.groupBy(sf.window("at", WINDOW_LENGTH).alias("window"), "name").agg(
        sf.count("*").alias("samples"), sf.avg("value").alias("mean"), sf.max("value").alias("max")
    )
    return grouped.select("name", sf.col("window.start").alias("start"), "samples", "mean", "max")


def alerts(rows: DataFrame) -> DataFrame:
    """Return the windows that break a rule."""
    return rows.select("name", "start", "mean", _broken_rule().alias("rule")).where(
        "rule IS NOT NULL"
    )


def _broken_rule() -> Column:
    rule = sf.lit(None).cast("string")
    for name, limit in RULES.items():
        broken = (sf.col("name") == name) & (sf.col("mean") > limit)
        rule = sf.when(broken, f"mean of {name} > {limit:g}").otherwise(rule)
    return rule


def start(places: Places, *, to_the_end: bool) -> list[StreamingQuery]:
    """Start both queries. With `to_the_end` the second starts when the first has ended."""
    samples = parsed(places.stream(METRICS), SAMPLE)
    first = places.write(windows(samples), WINDOWS, to_the_end=to_the_end)
    if to_the_end:
        first.awaitTermination()
    found = alerts(parsed(places.stream(WINDOWS), WINDOW))
    second = places.write(found, ALERTS, to_the_end=to_the_end)
    if to_the_end:
        second.awaitTermination()
    return [first, second]


def reconcile(places: Places, sent: int) -> list[tuple[str, int, int]]:
    """Return lines of (what, expected, found). They agree if nothing is lost or doubled."""
    samples = parsed(places.read(METRICS), SAMPLE).where(sf.col("name") != CLOCK).cache()
    written = parsed(places.read(WINDOWS), WINDOW).cache()
    raised = parsed(places.read(ALERTS), ALERT)
    expected = windows(samples).cache()
    pairs = expected.alias("e").join(written.alias("w"), ["name", "start"], "full")
    # The mean depends on the order in which values are added, so its last digits may differ.
    is_equal = sf.expr(
        "e.samples = w.samples AND e.max = w.max AND abs(e.mean - w.mean) <= 1e-9 * abs(e.mean)"
    )
    differing = pairs.where(~sf.coalesce(is_equal, sf.lit(False)))
    return [
        ("samples in the topic", sent, samples.count()),
        ("samples in windows", sent, written.agg(sf.sum("samples")).first()[0] or 0),
        ("windows", expected.count(), written.count()),
        ("windows that differ from a batch query", 0, differing.count()),
        ("alerts", alerts(expected).count(), raised.count()),
    ]
