"""`python -m examples.commitlog`: see README.md."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from examples.commitlog import database, own, queries
from examples.commitlog.database import Primary, Replica
from examples.commitlog.queries import AIRCRAFT
from odradek.demo import data
from odradek.pipelines.arguments import at_least_one
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.own import options as own_options
from odradek.pipelines.picture import Bars, draw
from odradek.pipelines.places import Line, Places

ROWS_SHOWN = 5
ROWS_DRAWN = 15


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Change a table, follow its changes, lose the table, and rebuild it from the topic."""
    if own_options.is_given(options):
        return own.run(console, places, options)
    flights = data.load(options.flights).flights
    places.create(AIRCRAFT, cleanup_policy="compact")
    places.output.mkdir(parents=True, exist_ok=True)
    primary = Primary(places.output / "primary.db")
    replica = Replica(places.output / "replica.db")
    shipped = 0
    middle = len(flights) // 2
    for number, part in enumerate((flights[:middle], flights[middle:])):
        primary.land(part)
        changes = primary.changes(shipped)
        places.send(AIRCRAFT, ((key, row) for _, key, row in changes))
        shipped = changes[-1][0]
        console.print(f"{len(changes)} changes of the table are in the topic {AIRCRAFT}")
        if number == 0:
            queries.follow(places, replica, max(1000, len(changes) // 3))
    lost = database.rows(primary.path)
    primary.path.unlink()
    console.print(f"{primary.path} is lost, with {len(lost)} rows")
    queries.follow(places, replica, max(1000, shipped // 6))
    rebuilt = queries.rebuild(places, places.output / "rebuilt.db")
    found, followed = database.rows(rebuilt.path), database.rows(replica.path)
    _print(console, found)
    most = sorted(found, key=lambda each: (-each[3], each[0]))[:ROWS_DRAWN]
    bars = Bars("Flights of the aircraft in the rebuilt table", {row[0]: row[3] for row in most})
    draw(console, places, "commitlog", "A table, rebuilt from its changes", [bars])
    return [
        ("changes in the topic", shipped, queries.changes_written(places)),
        ("rows of the rebuilt table", len(lost), len(found)),
        ("rows of the rebuilt table that differ from the lost one", 0, len(lost ^ found)),
        ("rows of the replica", len(lost), len(followed)),
        ("rows of the replica that differ from the lost table", 0, len(lost ^ followed)),
    ]


def _print(console: Console, rows: set[database.Row]) -> None:
    table = Table(*database.COLUMNS, title="aircraft with the most flights in the rebuilt table")
    for row in sorted(rows, key=lambda each: (-each[3], each[0]))[:ROWS_SHOWN]:
        table.add_row(*map(str, row))
    console.print(table)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--flights", type=at_least_one, default=50_000, help="the year has 336776")
    own_options.add_arguments(parser, own.BASE)
    parser.add_argument(
        "--key", default="id", metavar="COLUMN,…", help="the key of the rows in own data"
    )


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: an option is wrong.
    """
    if not all(each.strip() for each in options.key.split(",")):
        raise ValueError(f"--key {options.key!r}: write COLUMN,COLUMN")
    own_options.check(options, own.fields(options.key.split(",")))


continues = own_options.is_given

if __name__ == "__main__":
    sys.exit(command(Pipeline("commitlog", run, add_arguments, check, True, continues)))
