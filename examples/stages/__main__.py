"""`python -m examples.stages`: see README.md."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.stages import own, queries
from examples.stages.queries import AIRLINES, DAILY, DAY, ENRICHED, PLANES, RAW
from odradek.demo import data
from odradek.pipelines.arguments import at_least_one, duration_s
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.own import options as own_options
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Line, Places

DAYS_SHOWN = 5


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send the flights in two parts, run both stages after each part, and reconcile."""
    from examples.stages.check import reconcile_flights

    if own_options.is_given(options):
        return own.run(console, places, options)
    tables = data.load(options.flights)
    places.create(AIRLINES, PLANES, cleanup_policy="compact")
    places.create(RAW, ENRICHED, DAILY)
    for topic, events in (
        (AIRLINES, data.reference_events(tables.airlines, "carrier")),
        (PLANES, data.reference_events(tables.planes, "tailnum")),
    ):
        places.send(topic, zip(events.keys, events.values, strict=True))
    events = data.flight_events(tables.flights)
    records = list(zip(events.keys, events.values, strict=True))
    middle = len(records) // 2
    for part in (records[:middle], records[middle:]):
        sent = places.send(RAW, part)
        console.print(f"{sent} events sent to {RAW}; the stages process them")
        queries.run(places, max(1000, -(-len(part) // 4)))
    _print(console, places)
    return reconcile_flights(places, tables)


def _print(console: Console, places: Places) -> None:
    days = places.read(DAILY, DAY).cache()
    total = [sf.sum(name).alias(name) for name in ("flights", "cancelled", "late", "seats")]
    table = Table("airline", "flights", "cancelled", "late", "seats")
    for row in days.groupBy("airline").agg(*total).orderBy(sf.desc("flights")).collect():
        table.add_row(*map(str, row))
    console.print(table)
    table = Table("days with the most late flights", "flights", "cancelled", "late")
    worst = days.groupBy("day").agg(*total[:3]).orderBy(sf.desc("late"), "day")
    for row in worst.limit(DAYS_SHOWN).collect():
        table.add_row(*map(str, row))
    console.print(table)
    late = days.groupBy("airline").agg(sf.sum("late").alias("late")).orderBy(sf.desc("late"))
    by_day = days.groupBy("day").agg(sf.sum("flights").alias("flights"), total[2]).orderBy("day")
    series: dict[str, list[tuple[datetime, float]]] = {"flights": [], "late": []}
    for row in by_day.collect():
        for name, points in series.items():
            points.append((datetime.fromisoformat(row.day), float(row[name])))
    bars = {row.airline: float(row.late) for row in late.collect()}
    panels = (Bars("Late flights by airline", bars), Lines("Flights of each day", series))
    draw(console, places, "stages", "Flights from New York", panels)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--flights", type=at_least_one, default=50_000, help="the year has 336776")
    own_options.add_arguments(parser, own.FIELDS)
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="a table with key and name, for own data"
    )
    parser.add_argument(
        "--lateness",
        type=duration_s,
        default="1d",
        help="how much later than others a row of own data may come",
    )


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: an option is wrong.
    """
    own_options.check(options, own.FIELDS)
    if options.reference is not None:
        if not own_options.is_given(options):
            raise ValueError("--reference needs --input or --topic")
        own_options.check_columns(options.reference, own.REFERENCE_FIELDS)


continues = own_options.is_given

if __name__ == "__main__":
    sys.exit(command(Pipeline("stages", run, add_arguments, check, True, continues)))
