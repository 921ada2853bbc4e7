"""The streaming queries. The check of their results (`check.py`) uses none of these functions.

    metrics ── windows of five seconds by metric ── metrics.windows ── rules ── metrics.alerts

Both queries write exactly once, so each window is in `metrics.windows` once, and each alert in
`metrics.alerts` once, although the queries stop and start again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from odradek.pipelines.places import Places

METRICS, WINDOWS, ALERTS = "metrics", "metrics.windows", "metrics.alerts"
SAMPLE = "name STRING, time BIGINT, value DOUBLE"
WINDOW = "name STRING, start TIMESTAMP, samples BIGINT, mean DOUBLE, max DOUBLE"
ALERT = "name STRING, start TIMESTAMP, mean DOUBLE, rule STRING"
WINDOW_S = 5
LATENESS = "2 seconds"
RULES = {
    "system.cpu": 0.8,
    "system.memory": 0.9,
    "broker.cpu": 0.5,
    "broker.resident_bytes": 300e6,
}
"""There is an alert if the mean of a window is higher."""


def windows(samples: DataFrame) -> DataFrame:
    """Return the windows of samples. They are complete when the watermark has passed their end."""
    timed = samples.withColumn("at", sf.timestamp_millis("time")).withWatermark("at", LATENESS)
    grouped = timed.groupBy(sf.window("at", f"{WINDOW_S} seconds").alias("window"), "name").agg(
        sf.count("*").alias("samples"), sf.avg("value").alias("mean"), sf.max("value").alias("max")
    )
    return grouped.select("name", sf.col("window.start").alias("start"), "samples", "mean", "max")


def alerts(rows: DataFrame) -> DataFrame:
    """Return the windows that break a rule."""
    return rows.select("name", "start", "mean", _broken_rule().alias("rule")).where(
        "rule IS NOT NULL"
    )


def text_of(name: str, limit: float) -> str:
    """Return a rule for people."""
    return f"mean of {name} > {limit:g}"


def _broken_rule() -> Column:
    rule = sf.lit(None).cast("string")
    for name, limit in RULES.items():
        broken = (sf.col("name") == name) & (sf.col("mean") > limit)
        rule = sf.when(broken, text_of(name, limit)).otherwise(rule)
    return rule


def start(places: Places, *, to_the_end: bool) -> list[StreamingQuery]:
    """Start both queries. With `to_the_end` the second starts when the first has ended."""
    samples = places.stream(METRICS, SAMPLE)
    first = places.write(windows(samples), WINDOWS, "name", to_the_end=to_the_end)
    found = alerts(places.stream(WINDOWS, WINDOW))
    return [first, places.write(found, ALERTS, "name", to_the_end=to_the_end)]
