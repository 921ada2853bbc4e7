"""`python -m examples.activity`: see README.md."""

from __future__ import annotations

import argparse
import itertools
import sys

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.activity import queries
from examples.activity.actions import STAGES, actions, end, records
from examples.activity.queries import ACTIVITY, COUNTS, SESSION, SESSIONS
from odradek.demo import data
from odradek.pipelines.arguments import at_least_one
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.places import Line, Places

VISITORS_SHOWN = 5


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send actions, run the queries, and reconcile."""
    sent = actions(data.load(options.flights).flights)
    places.create(ACTIVITY, SESSIONS, COUNTS)
    places.send(ACTIVITY, itertools.chain(records(sent), [end()]))
    console.print(f"{len(sent)} actions sent to {ACTIVITY}; the queries process them")
    queries.run(places, max(2000, len(sent) // 4))
    _print_funnel(console, places)
    _print_sessions(console, places)
    reached = sent["action"].value_counts().to_dict()
    return queries.reconcile(places, len(sent), reached)


def _print_funnel(console: Console, places: Places) -> None:
    table = Table("airline", *STAGES, title="funnel, from the table")
    for row in queries.funnel(queries.loaded(places)).orderBy(sf.desc(STAGES[0])).collect():
        shares = (f"{row[stage]} ({row[stage] / row[STAGES[0]]:.0%})" for stage in STAGES)
        table.add_row(row.section, *shares)
    console.print(table)


def _print_sessions(console: Console, places: Places) -> None:
    table = Table(
        "aircraft", "sessions", "actions", "landings", "longest", title="busiest visitors"
    )
    length = sf.max(sf.col("ended").cast("long") - sf.col("began").cast("long"))
    busiest = (
        places.read(SESSIONS, SESSION)
        .groupBy("visitor")
        .agg(sf.count("*"), sf.sum("actions").alias("actions"), sf.sum("pages"), length)
        .orderBy(sf.desc("actions"), "visitor")
    )
    for visitor, count, total, pages, seconds in busiest.limit(VISITORS_SHOWN).collect():
        table.add_row(visitor, str(count), str(total), str(pages), f"{seconds / 3600:.1f} h")
    console.print(table)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--flights", type=at_least_one, default=20_000, help="the year has 336776")


if __name__ == "__main__":
    sys.exit(command(Pipeline("activity", run, add_arguments, is_example=True)))
