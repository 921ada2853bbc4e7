"""`python -m examples.activity`: see README.md."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from functools import partial

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.activity import queries
from examples.activity.actions import actions, records
from examples.activity.queries import ACTIVITY, COUNT, COUNTS, FIELDS, SESSION, SESSIONS, Settings
from odradek.config import extras
from odradek.demo import data
from odradek.pipelines.arguments import at_least_one, duration_s
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.own import options as own
from odradek.pipelines.own.source import Files, Made, MadeLines, Source
from odradek.pipelines.own.topic import Topic
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Line, Places

SHOWN = 5
SHOP_STAGES = ("view", "cart", "purchase")


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send actions, run the queries, and reconcile."""
    from examples.activity.check import reconcile

    source, settings = _source(options), _settings(options)
    places.create(SESSIONS, COUNTS)
    source.begin(console, places)
    start = partial(queries.start, places, source, settings)
    source.follow(console, places, partial(start, to_the_end=False))
    for is_end in (True,) if source.has_ended(places) else (False, True):
        if is_end:  # once more, to end all windows
            source.end(places)
        start(to_the_end=True)
    _print_funnel(console, places, settings)
    _print_sessions(console, places)
    _draw(console, places, settings)
    return reconcile(places, source, settings)


def _source(options: argparse.Namespace) -> Source:
    fields = own.columns_of(options, FIELDS)
    if options.topic:
        return Topic(options.topic, fields, own.following(options))
    if options.input:
        return Files(ACTIVITY, fields, ["visitor"], options.input, own.wanted(options))
    made = MadeLines(
        f"{options.flights} flights", lambda: records(actions(data.load(options.flights).flights))
    )
    return Made(ACTIVITY, fields, ["visitor"], made)


def _settings(options: argparse.Namespace) -> Settings:
    if not own.is_given(options):
        return Settings()
    return Settings(
        stages=tuple(options.stages.split(",")),
        page=options.stages.partition(",")[0],
        pause_s=options.pause,
        lateness_s=options.lateness,
    )


def _print_funnel(console: Console, places: Places, settings: Settings) -> None:
    first, *_ = stages = settings.stages
    table = Table("section", *stages, title="funnel, from the table")
    found = queries.funnel(queries.loaded(places), settings).orderBy(sf.desc(first), "section")
    for row in found.limit(SHOWN * 4).collect():
        shares = (f"{row[stage]} ({row[stage] / max(row[first], 1):.0%})" for stage in stages)
        table.add_row(row.section, *shares)
    console.print(table)


def _print_sessions(console: Console, places: Places) -> None:
    table = Table("visitor", "sessions", "actions", "pages", "longest", title="busiest visitors")
    length = sf.max(sf.col("ended").cast("long") - sf.col("began").cast("long"))
    busiest = (
        places.read(SESSIONS, SESSION)
        .groupBy("visitor")
        .agg(sf.count("*"), sf.sum("actions").alias("actions"), sf.sum("pages"), length)
        .orderBy(sf.desc("actions"), "visitor")
    )
    for visitor, count, total, pages, seconds in busiest.limit(SHOWN).collect():
        table.add_row(visitor, str(count), str(total), str(pages), f"{seconds / 3600:.1f} h")
    console.print(table)


def _draw(console: Console, places: Places, settings: Settings) -> None:
    found: dict[str, list[tuple[datetime, float]]] = {each: [] for each in settings.stages}
    for row in places.read(COUNTS, COUNT).orderBy("hour").collect():
        if row.action in found:
            found[row.action].append((row.hour, row.actions))
    totals = {name: sum(count for _, count in points) for name, points in found.items()}
    panels = (Bars("Actions by stage of the funnel", totals), Lines("Actions in each hour", found))
    draw(console, places, "activity", "What visitors do", panels)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--flights", type=at_least_one, default=20_000, help="the year has 336776")
    own.add_arguments(parser, FIELDS)
    parser.add_argument(
        "--stages", default=",".join(SHOP_STAGES), help="the actions of the funnel in own data"
    )
    parser.add_argument(
        "--pause", type=duration_s, default="30m", help="ends a session in own data"
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
        ValueError: an option is wrong, or the library deltalake is not installed.
    """
    if extras.missing(["deltalake"]):
        raise ValueError("the table needs deltalake: pip install 'odradek[delta]'")
    own.check(options, FIELDS)
    if not all(each.strip() for each in options.stages.split(",")):
        raise ValueError(f"--stages {options.stages!r}: write ACTION,ACTION")


def continues(options: argparse.Namespace) -> bool:
    """Return that a run continues: the actions are sent once."""
    del options
    return True


if __name__ == "__main__":
    sys.exit(command(Pipeline("activity", run, add_arguments, check, True, continues)))
