"""`python -m examples.logs`: see README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.logs.lake import Lake
from examples.logs.shipping import ship
from odradek.config import extras
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.inputs import STDIN, files
from odradek.pipelines.places import Line, PipelineError, Places

TOPIC = "logs"
LINES_PER_BATCH = 20_000
DAYS_SHOWN = 10
SKIPPED_SHOWN = 20


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Ship the lines, load them into the lake, and reconcile."""
    from examples.logs.check import reconcile

    places.create(TOPIC)
    shipment = ship(places, TOPIC, files(options.input, places.output / "input"))
    skipped = [str(each) for each in shipment.skipped]
    skipped += [f"{file}: line {line} is skipped: too long" for file, line in shipment.too_long]
    for each in skipped[:SKIPPED_SHOWN]:
        console.print(each, markup=False)
    if len(skipped) > SKIPPED_SHOWN:
        console.print(f"... and {len(skipped) - SKIPPED_SHOWN} more")
    count = len(shipment.bytes_read)
    console.print(f"{shipment.sent} lines of {count} files are in the topic {TOPIC}")
    if not shipment.sent:
        raise PipelineError(f"there are no lines in {', '.join(map(str, options.input))}")
    lake = Lake(places)
    lake.load(TOPIC, LINES_PER_BATCH)
    _print_days(console, lake)
    console.print(f"\nThe last lines with {options.search!r}:")
    for row in lake.search(options.search, 5).collect():
        console.print(f"  {row.time} {Path(row.file).name}:{row.line} {row.text}", markup=False)
    return reconcile(shipment, lake.files())


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


if __name__ == "__main__":
    sys.exit(command(Pipeline("logs", run, add_arguments, check, is_example=True)))
