"""The same stages for own data: rows get a name from a reference table, and are counted by day.

events.raw ── name, from the reference ── events.enriched ── by day and name ── events.daily
events.reference (compacted, read at the start) ──┘
"""

from __future__ import annotations

import argparse
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from odradek.pipelines.own import options as own
from odradek.pipelines.own import stream
from odradek.pipelines.own.fields import DECIMAL, TEXT, TIME, Field
from odradek.pipelines.own.formats import Wanted
from odradek.pipelines.own.source import Files, Source
from odradek.pipelines.own.topic import Topic
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Line, Places

RAW, ENRICHED, DAILY, REFERENCE = (
    "events.raw",
    "events.enriched",
    "events.daily",
    "events.reference",
)
_KEY = Field("key", TEXT, ("product_id", "key", "item_id", "id"))
_NAME = ("category_code", "name", "title", "brand")
FIELDS = (
    _KEY,
    Field("time", TIME, ("event_time", "time", "timestamp", "date")),
    Field("amount", DECIMAL, ("price", "amount", "value", "total"), is_required=False),
    Field("name", TEXT, _NAME, is_required=False),
)
REFERENCE_FIELDS = (_KEY, Field("name", TEXT, _NAME))
ENRICHED_ROW = "time TIMESTAMP, key STRING, name STRING, amount DECIMAL(18,4)"
DAY = "day STRING, name STRING, events BIGINT, total DECIMAL(38,4)"
DAYS_SHOWN = 5
NAMES_DRAWN, LINES_DRAWN = 12, 5


def enriched(events: DataFrame, reference: DataFrame | None) -> DataFrame:
    """Return the first stage: events with a name, which is that of the reference if it has one."""
    own_name = sf.coalesce("name", "key")
    if reference is None:
        return events.select("time", "key", own_name.alias("name"), "amount")
    names = reference.withColumnRenamed("name", "known")
    joined = events.join(sf.broadcast(names), "key", "left")
    return joined.select("time", "key", sf.coalesce("known", own_name).alias("name"), "amount")


def daily(events: DataFrame, lateness_s: int) -> DataFrame:
    """Return the second stage: number and sum by day and name."""
    timed = events.withWatermark("time", f"{lateness_s} seconds")
    grouped = timed.groupBy(sf.window("time", "1 day").alias("window"), "name").agg(
        sf.count("*").alias("events"),
        sf.coalesce(sf.sum("amount"), sf.lit(0)).cast("decimal(38,4)").alias("total"),
    )
    day = sf.date_format("window.start", "yyyy-MM-dd").alias("day")
    return grouped.select(day, "name", "events", "total")


def latest(records: DataFrame) -> DataFrame:
    """Return the last row of each key of a reference."""
    order = sf.struct("partition", "offset")
    return records.groupBy("key").agg(sf.max_by("name", order).alias("name"))


def start(
    places: Places, source: Source, names: DataFrame | None, lateness_s: int, *, to_the_end: bool
) -> list[StreamingQuery]:
    """Start both stages, with `to_the_end` one after the other."""
    events = source.stream(places, source.per_batch, group=ENRICHED)
    first = places.write(enriched(events, names), ENRICHED, "key", to_the_end=to_the_end)
    middle = places.stream(ENRICHED, ENRICHED_ROW, source.per_batch, group=DAILY)
    key = sf.concat_ws("|", "day", "name")
    return [first, places.write(daily(middle, lateness_s), DAILY, key, to_the_end=to_the_end)]


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send the rows, run both stages, and reconcile."""
    from examples.stages.check import reconcile

    source, reference = sources(options)
    places.create(ENRICHED, DAILY)
    names = None
    if reference is not None:
        reference.begin(console, places)
        names = latest(stream.rows(places.read(REFERENCE), REFERENCE_FIELDS)).cache()
    source.begin(console, places)
    begin = partial(start, places, source, names, options.lateness)
    source.follow(console, places, partial(begin, to_the_end=False))
    for is_end in (True,) if source.has_ended(places) else (False, True):
        if is_end:
            source.end(places)
        begin(to_the_end=True)
    _print(console, places)
    return reconcile(places, source, reference)


def sources(options: argparse.Namespace) -> tuple[Source, Files | None]:
    """Return the sources of the rows and of the reference."""
    fields = own.columns_of(options, FIELDS)
    source: Source
    if options.topic:
        source = Topic(options.topic, fields, own.following(options))
    else:
        source = Files(RAW, fields, ["key"], options.input, own.wanted(options))
    if options.reference is None:
        return source, None
    return source, Files(REFERENCE, REFERENCE_FIELDS, ["key"], [options.reference], Wanted())


def _print(console: Console, places: Places) -> None:
    table = Table("day", "name", "events", "total", title="the most events of a day")
    days = places.read(DAILY, DAY).orderBy(sf.desc("events"), "day", "name")
    for row in days.limit(DAYS_SHOWN).collect():
        table.add_row(*map(str, row))
    console.print(table)
    _draw(console, places)


def _draw(console: Console, places: Places) -> None:
    days = places.read(DAILY, DAY).cache()
    totals = days.groupBy("name").agg(sf.sum("events").alias("events"))
    most = totals.orderBy(sf.desc("events"), "name").limit(NAMES_DRAWN).collect()
    bars = {row.name: float(row.events) for row in most}
    series: dict[str, list[tuple[datetime, float]]] = {name: [] for name in [*bars][:LINES_DRAWN]}
    for row in days.where(sf.col("name").isin(*series)).orderBy("day").collect():
        series[row.name].append((datetime.fromisoformat(row.day), float(row.events)))
    panels = (Bars("Events by name", bars), Lines("Events of each day", series))
    draw(console, places, "stages", "Events, enriched and counted", panels)
