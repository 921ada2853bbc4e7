"""The same for a person's own metrics: windows of each series, and alerts by rules that are given."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from examples.metrics import formats
from examples.metrics.formats import FIELDS, PROMETHEUS, MetricFiles, MetricTopic
from examples.metrics.scraping import Scraper
from odradek.pipelines.inputs import STDIN, DamagedError, files
from odradek.pipelines.own import options as own
from odradek.pipelines.own import stream
from odradek.pipelines.own.formats import FormatError, Wanted
from odradek.pipelines.own.shipping import Shipment, Shipper, ship_files
from odradek.pipelines.own.source import Source
from odradek.pipelines.picture import Lines, draw
from odradek.pipelines.places import Line, Places

METRICS, WINDOWS, ALERTS = "metrics", "metrics.windows", "metrics.alerts"
WINDOW = "name STRING, start TIMESTAMP, samples BIGINT, mean DOUBLE, max DOUBLE"
ALERT = "name STRING, start TIMESTAMP, mean DOUBLE, rule STRING"
SHOWN, LINES_DRAWN = 10, 4
SECONDS = 30.0
"""How long to sample or scrape."""


@dataclass(frozen=True, slots=True)
class Rule:
    """There is an alert if the mean of a window of the metric is higher."""

    metric: str
    limit: float

    @property
    def text(self) -> str:
        """The rule for people."""
        return f"mean > {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What depends on the data."""

    window_s: int
    lateness_s: int
    rules: tuple[Rule, ...]


def windows(samples: DataFrame, settings: Settings) -> DataFrame:
    """Return the windows of samples."""
    timed = samples.withWatermark("time", f"{settings.lateness_s} seconds")
    window = sf.window("time", f"{settings.window_s} seconds").alias("window")
    grouped = timed.groupBy(window, "name").agg(
        sf.count("*").alias("samples"), sf.avg("value").alias("mean"), sf.max("value").alias("max")
    )
    return grouped.select("name", sf.col("window.start").alias("start"), "samples", "mean", "max")


def alerts(rows: DataFrame, settings: Settings) -> DataFrame:
    """Return the windows that break a rule, each with the first rule that it breaks."""
    rule: Column = sf.lit(None).cast("string")
    metric = sf.regexp_extract("name", r"^[^{@]*", 0)
    for each in reversed(settings.rules):
        broken = (metric == each.metric) & (sf.col("mean") > each.limit)
        rule = sf.when(broken, each.text).otherwise(rule)
    return rows.select("name", "start", "mean", rule.alias("rule")).where("rule IS NOT NULL")


class Scrapes(MetricFiles):
    """The stored responses of endpoints."""

    kind = PROMETHEUS

    def __init__(self, urls: list[str], scraper: Scraper) -> None:
        super().__init__(METRICS, FIELDS[PROMETHEUS], ["text"], [], Wanted())
        self._urls = urls
        self._scraper = scraper

    def note(self) -> dict[str, object]:
        """See `Source`."""
        return {"scrape": self._urls}

    def _ship(self, shipper: Shipper) -> Shipment:
        return ship_files(shipper, self._scraper.files(), self._opened)


def stream_of(source: Source, places: Places, kind: str, per_batch: int) -> DataFrame:
    """Return the samples as a stream."""
    records = source.records(places, per_batch, group=WINDOWS)
    return formats.samples(records, kind, source.fields)


def start(
    places: Places, source: Source, kind: str, settings: Settings, *, to_the_end: bool
) -> list[StreamingQuery]:
    """Start both queries. With `to_the_end` the second starts when the first has ended."""
    found = stream_of(source, places, kind, source.per_batch)
    active = [places.write(windows(found, settings), WINDOWS, "name", to_the_end=to_the_end)]
    if settings.rules:
        raised = alerts(places.stream(WINDOWS, WINDOW, group=ALERTS), settings)
        active.append(places.write(raised, ALERTS, "name", to_the_end=to_the_end))
    return active


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send the metrics, compute windows and alerts, and reconcile."""
    from examples.metrics.check import reconcile

    settings = Settings(options.window, options.lateness, tuple(options.alert))
    places.create(WINDOWS, ALERTS)
    source, kind = _source(places, options)
    if options.scrape:
        _scrape(console, places, options, source)
    source.begin(console, places)
    begin = partial(start, places, source, kind, settings)
    source.follow(console, places, partial(begin, to_the_end=False))
    for is_end in (True,) if source.has_ended(places) else (False, True):
        if is_end:
            source.end(places)
        begin(to_the_end=True)
    _print(console, places)
    return reconcile(places, source, kind, settings)


def kind_of_files(found: list[Path]) -> str:
    """Return the kind of the first file that can be read."""
    for path in found:
        try:
            return formats.kind_of(path)
        except (FormatError, DamagedError, OSError):
            continue
    return formats.ROWS


def _source(places: Places, options: argparse.Namespace) -> tuple[Source, str]:
    if options.scrape:
        scraper = Scraper(options.scrape, places.output / "input")
        return Scrapes(options.scrape, scraper), PROMETHEUS
    if options.topic:
        kind = options.kind or formats.ROWS
        named = own.columns_of(options, FIELDS[kind]) if kind == formats.ROWS else FIELDS[kind]
        topic = MetricTopic(options.topic, named, own.following(options))
        topic.kind = kind
        return topic, kind
    found = files(options.input, places.output / "input")
    kind = kind_of_files(found)
    fields = own.columns_of(options, FIELDS[kind]) if kind == formats.ROWS else FIELDS[kind]
    key = [fields[0].name] if kind != formats.OTLP else []
    given = [each for each in options.input if each != STDIN]
    given += [places.output / "input" / "stdin"] if STDIN in options.input else []
    source = MetricFiles(METRICS, fields, key, given, own.wanted(options))
    source.kind = kind
    return source, kind


def _scrape(console: Console, places: Places, options: argparse.Namespace, source: Source) -> None:
    """Scrape for some time. What was stored is sent afterwards, or by the next run."""
    scraper = Scraper(options.scrape, places.output / "input")
    scraper.check()
    if source.is_begun(places) and source.has_ended(places):
        return
    seconds = options.seconds or SECONDS
    console.print(f"Scraping for {seconds:g} s, every {options.every:g} s")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and not places.stopping.is_set():
        scraper.scrape()
        places.stopping.wait(options.every)
    for each in scraper.failures[:SHOWN]:
        console.print(f"not scraped: {each}", markup=False)


def _print(console: Console, places: Places) -> None:
    table = Table("series", "windows", "samples", "mean", "max", title="the most samples")
    found = places.read(WINDOWS, WINDOW).groupBy("name")
    means = (sf.avg("mean").alias("mean"), sf.max("max").alias("max"))
    counts = (sf.count("*").alias("windows"), sf.sum("samples").alias("samples"))
    rows = found.agg(*counts, *means).orderBy(sf.desc("samples"), "name").limit(SHOWN).collect()
    for row in rows:
        table.add_row(
            row.name, str(row.windows), str(row.samples), f"{row.mean:.4g}", f"{row.max:.4g}"
        )
    console.print(table)
    _draw(console, places, [row.name for row in rows[:LINES_DRAWN]])


def _draw(console: Console, places: Places, names: list[str]) -> None:
    series: dict[str, list[tuple[datetime, float]]] = {name: [] for name in names}
    found = places.read(WINDOWS, WINDOW).where(sf.col("name").isin(*names)).orderBy("start")
    for row in found.collect():
        series[row.name].append((row.start, row["mean"]))
    panels = [Lines(name, {name: points}) for name, points in series.items()]
    draw(console, places, "metrics", "Means of windows", panels)


def rejected(places: Places, source: Source, kind: str) -> int:
    """Return the number of records that are no samples for the stream."""
    parsed = stream.parsed(source.read(places), source.fields)
    return parsed.where(~(sf.col("is_row") & formats.is_sample(kind))).count()
