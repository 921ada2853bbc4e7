"""The streaming queries. The check of their results (`check.py`) uses none of these functions.

activity ──┬─ sessions: actions of a visitor without a long pause ── activity.sessions
           ├─ actions in each hour ── activity.counts
           └─ Delta table, partitioned by month
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.activity import table
from examples.activity.actions import STAGES
from odradek.pipelines.own.fields import TEXT, TIME, Field
from odradek.pipelines.own.source import END_NAME, Source
from odradek.pipelines.places import Places

ACTIVITY, SESSIONS, COUNTS = "activity", "activity.sessions", "activity.counts"
FIELDS = (
    Field("visitor", TEXT, ("user_id", "visitor", "visitorid", "userId")),
    Field("action", TEXT, ("event_type", "action", "event")),
    Field("time", TIME, ("event_time", "time", "timestamp")),
    Field("section", TEXT, ("category_code", "section", "category_id"), is_required=False),
    Field("page", TEXT, ("product_id", "page", "item_id", "itemid"), is_required=False),
)
SESSION = "visitor STRING, began TIMESTAMP, ended TIMESTAMP, actions BIGINT, pages BIGINT"
COUNT = "hour TIMESTAMP, action STRING, actions BIGINT"


@dataclass(frozen=True, slots=True)
class Settings:
    """What depends on the data."""

    stages: tuple[str, ...] = STAGES
    """The actions of the funnel, in their order."""
    page: str = "landed"
    """The action that visits a page."""
    pause_s: int = 6 * 3600
    """A session ends if there is no action for this time."""
    lateness_s: int = 12 * 3600
    """How much later than others an action may arrive."""


def timed(actions: DataFrame, settings: Settings) -> DataFrame:
    """Return actions with a watermark on their time."""
    return actions.withWatermark("time", f"{settings.lateness_s} seconds")


def sessions(actions: DataFrame, settings: Settings) -> DataFrame:
    """Return the sessions of visitors."""
    window = sf.session_window("time", f"{settings.pause_s} seconds").alias("window")
    counted = (
        timed(actions, settings)
        .groupBy(window, "visitor")
        .agg(
            sf.count("*").alias("actions"),
            sf.count_if(sf.col("action") == settings.page).alias("pages"),
        )
    )
    bounds = sf.col("window.start").alias("began"), sf.col("window.end").alias("ended")
    return counted.select("visitor", *bounds, "actions", "pages")


def counts(actions: DataFrame, settings: Settings) -> DataFrame:
    """Return the number of actions of each kind in each hour."""
    window = sf.window("time", "1 hour").alias("window")
    grouped = timed(actions, settings).groupBy(window, "action")
    counted = grouped.agg(sf.count("*").alias("actions"))
    return counted.select(sf.col("window.start").alias("hour"), "action", "actions")


def start(
    places: Places, source: Source, settings: Settings, *, to_the_end: bool
) -> list[StreamingQuery]:
    """Start the queries, with `to_the_end` one after another."""
    active = []
    for rows_of, topic, key in ((sessions, SESSIONS, "visitor"), (counts, COUNTS, "action")):
        actions = source.stream(places, source.per_batch, group=topic)
        rows = rows_of(actions, settings)
        active.append(places.write(rows, topic, key, to_the_end=to_the_end))
    actions = source.stream(places, source.per_batch, group=table.QUERY)
    return [*active, places.start(loading(places, actions), to_the_end=to_the_end)]


def loading(places: Places, actions: DataFrame) -> DataStreamWriter:
    """Return the query that adds actions to the table, each micro-batch once."""
    rows = actions.where(sf.col("visitor") != END_NAME).select(*(each.name for each in FIELDS))
    return (
        rows.withColumn(table.PARTITIONED_BY, sf.date_format("time", "yyyy-MM"))
        .writeStream.foreachBatch(partial(table.append, table_path(places)))
        .queryName("table")
        .option("checkpointLocation", places.checkpoint("table"))
    )


def table_path(places: Places) -> str:
    """Return the directory of the table."""
    return str(places.output / "table")


def loaded(places: Places) -> DataFrame:
    """Return the rows of the table."""
    return table.read(places.spark, table_path(places))


def funnel(actions: DataFrame, settings: Settings) -> DataFrame:
    """Return how many actions of each section reached each stage."""
    stages = [sf.count_if(sf.col("action") == stage).alias(stage) for stage in settings.stages]
    section = sf.coalesce("section", sf.lit("")).alias("section")
    return actions.groupBy(section).agg(*stages)
