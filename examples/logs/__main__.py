"""`python -m examples.logs`: see README.md."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.logs.lake import UNDATED, Lake
from examples.logs.shipping import ship
from odradek.config import extras
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.inputs import STDIN, files
from odradek.pipelines.own.source import listed
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Line, PipelineError, Places

TOPIC = "logs"
LINES_PER_BATCH = 20_000
DAYS_SHOWN = 10


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Ship the lines, load them into the lake, and reconcile."""
    from examples.logs.check import reconcile

    places.create(TOPIC)
    shipped = ship(places, TOPIC, files(options.input, places.output / "input"))
    shipment = shipped.shipment
    for text in listed(shipment):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    count = len(shipped.bytes_read)
    console.print(f"{shipment.sent} lines of {count} files are in the topic {TOPIC}")
    if not shipment.sent:
        raise PipelineError(f"there are no lines in {', '.join(map(str, options.input))}")
    lake = Lake(places)
    lake.load(TOPIC, LINES_PER_BATCH)
    _print_days(console, lake)
    console.print(f"\nThe last lines with {options.search!r}:")
    for row in lake.search(options.search, 5).collect():
        console.print(f"  {row.time} {Path(row.file).name}:{row.line} {row.text}", markup=False)
    return reconcile(shipped, lake.files())


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
    by_level = lake.read().groupBy("level").count().orderBy(sf.desc("count")).collect()
    levels = {row.level or "no level": float(row["count"]) for row in by_level}
    dated = days.where(sf.col("day") != UNDATED).orderBy("day").collect()
    series = {
        name: [(datetime.fromisoformat(row.day), float(row[name])) for row in dated]
        for name in ("lines", "errors")
    }
    panels = (Bars("Lines by level", levels), Lines("Lines of each day", series))
    draw(console, lake.places, "logs", "Log files", panels)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument(
        "--input",
        "--logs",
        type=Path,
        nargs="+",
        default=[Path("/var/log")],
        metavar="PATH",
        help="files and directories, also compressed; - is the standard input",
    )
    parser.add_argument("--search", default="install", help="a word to search in the lake")


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: there is no such file, or no file at all, or DuckDB is not installed.
    """
    if not files(options.input) and STDIN not in options.input:
        raise ValueError(f"there are no files in {', '.join(map(str, options.input))}")
    if extras.missing(["duckdb"]):
        raise ValueError(f"the check needs DuckDB: {extras.install(extras.DEMO)}")


def continues(options: argparse.Namespace) -> bool:
    """Return that a run continues: each line is sent once."""
    del options
    return True


if __name__ == "__main__":
    sys.exit(command(Pipeline("logs", run, add_arguments, check, True, continues)))
