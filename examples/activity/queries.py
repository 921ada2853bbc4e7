"""The streaming queries, and the batch queries that reconcile them.

activity ──┬─ sessions: actions of a visitor without a pause of six hours ── activity.sessions
           ├─ actions in each hour ── activity.counts
           └─ Delta table, partitioned by month
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from examples.activity import table
from examples.activity.actions import END, STAGES
from odradek.pipelines.places import Line, Places, differing

ACTIVITY, SESSIONS, COUNTS = "activity", "activity.sessions", "activity.counts"
ACTION = "visitor STRING, section STRING, page STRING, action STRING, time BIGINT"
SESSION = "visitor STRING, began TIMESTAMP, ended TIMESTAMP, actions BIGINT, pages BIGINT"
COUNT = "hour TIMESTAMP, action STRING, actions BIGINT"
PAUSE = "6 hours"
"""A session ends if there is no action for this time."""
LATENESS = "12 hours"


def timed(actions: DataFrame) -> DataFrame:
    """Return actions with their time as `at`, and a watermark."""
    return actions.withColumn("at", sf.timestamp_millis("time")).withWatermark("at", LATENESS)


def sessions(actions: DataFrame) -> DataFrame:
    """Return the sessions of visitors. A page is visited when the visitor lands on it."""
    grouped = timed(actions).groupBy(sf.session_window("at", PAUSE).alias("window"), "visitor")
    counted = grouped.agg(
        sf.count("*").alias("actions"), sf.count_if(sf.col("action") == "landed").alias("pages")
    )
    bounds = sf.col("window.start").alias("began"), sf.col("window.end").alias("ended")
    return counted.select("visitor", *bounds, "actions", "pages")


def counts(actions: DataFrame) -> DataFrame:
    """Return the number of actions in each hour."""
    grouped = timed(actions).groupBy(sf.window("at", "1 hour").alias("window"), "action")
    counted = grouped.agg(sf.count("*").alias("actions"))
    return counted.select(sf.col("window.start").alias("hour"), "action", "actions")


def run(places: Places, per_batch: int) -> None:
    """Run the queries until they have processed all records that are there now."""
    for rows_of, topic, key in ((sessions, SESSIONS, "visitor"), (counts, COUNTS, "action")):
        actions = places.stream(ACTIVITY, ACTION, per_batch, group=topic)
        places.write(rows_of(actions), topic, key)
    load(places, per_batch)


def load(places: Places, per_batch: int) -> None:
    """Add actions to the table, each micro-batch once."""
    rows = timed(places.stream(ACTIVITY, ACTION, per_batch, group=table.QUERY)).where(
        sf.col("visitor") != END
    )
    query = (
        rows.withColumn(table.PARTITIONED_BY, sf.date_format("at", "yyyy-MM"))
        .writeStream.foreachBatch(partial(table.append, table_path(places)))
        .queryName("table")
        .option("checkpointLocation", places.checkpoint("table"))
        .trigger(availableNow=True)
        .start()
    )
    places.wait_for(query)


def table_path(places: Places) -> str:
    """Return the directory of the table."""
    return str(places.output / "table")


def loaded(places: Places) -> DataFrame:
    """Return the rows of the table."""
    return table.read(places.spark, table_path(places))


def funnel(actions: DataFrame) -> DataFrame:
    """Return how many actions of each section reached each stage."""
    stages = [sf.count_if(sf.col("action") == stage).alias(stage) for stage in STAGES]
    return actions.groupBy("section").agg(*stages)


def reconcile(places: Places, sent: int, reached: dict[str, int]) -> list[Line]:
    """Compare topics and table with a batch query over the actions.

    `reached` is the number of actions that were sent for each stage.
    """
    actions = places.read(ACTIVITY, ACTION).where(sf.col("visitor") != END).cache()
    found = places.read(SESSIONS, SESSION).cache()
    counted = places.read(COUNTS, COUNT).cache()
    expected, expected_counts = sessions(actions).cache(), counts(actions).cache()
    in_table = loaded(places).cache()
    totals = funnel(in_table).agg(*(sf.sum(stage).alias(stage) for stage in STAGES)).first()
    return [
        (f"actions in {ACTIVITY}", sent, actions.count()),
        (f"actions in {SESSIONS}", sent, found.agg(sf.sum("actions")).first()[0]),
        ("sessions", expected.count(), found.count()),
        ("sessions that differ from a batch query", 0, differing(expected, found)),
        (f"actions in {COUNTS}", sent, counted.agg(sf.sum("actions")).first()[0]),
        ("hours that differ from a batch query", 0, differing(expected_counts, counted)),
        ("actions in the table", sent, in_table.count()),
        *((f"{stage}, in the funnel", reached[stage], totals[stage]) for stage in STAGES),
    ]
