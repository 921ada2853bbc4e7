"""`python -m examples.logs`: see README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.logs.lake import Lake
from examples.logs.shipping import log_files, ship
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.places import Line, Places

TOPIC = "logs"
LINES_PER_BATCH = 20_000
DAYS_SHOWN = 10


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Ship the lines, load them into the lake, and reconcile."""
    places.create(TOPIC)
    shipped = ship(places, TOPIC, log_files(options.logs))
    console.print(f"{sum(shipped.values())} lines of {len(shipped)} files are in the topic {TOPIC}")
    lake = Lake(places)
    lake.load(TOPIC, LINES_PER_BATCH)
    _print_days(console, lake)
    console.print(f"\nThe last lines with {options.search!r}:")
    for row in lake.search(options.search, 5).collect():
        console.print(f"  {row.time} {Path(row.file).name}:{row.line} {row.text}", markup=False)
    return lake.reconcile(shipped)


def _print_days(console: Console, lake: Lake) -> None:
    errors = sf.count_if(sf.col("level").isin("error", "fatal", "critical")).alias("errors")
    days = (
        lake.read()
        .groupBy("day")
        .agg(sf.count("*").alias("lines"), sf.countDistinct("file").alias("files"), errors)
    )
    table = Table("day", "lines", "files", "errors")
    for row in days.orderBy(sf.desc("day")).limit(DAYS_SHOWN).collect():
        table.add_row(row.day, str(row.lines), str(row.files), str(row.errors))
    console.print(table)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--logs", type=Path, nargs="+", default=[Path("/var/log")])
    parser.add_argument("--search", default="install", help="a word to search in the lake")


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: there are no logs.
    """
    if not log_files(options.logs):
        raise ValueError(f"no readable text files in {', '.join(map(str, options.logs))}")


if __name__ == "__main__":
    sys.exit(command(Pipeline("logs", run, add_arguments, check, is_example=True)))
