"""`python -m examples.logs`: see README.md."""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.logs.lake import UNDATED, Lake
from examples.logs.shipping import TOPIC, Shipped, followed, ship, value_of_log
from odradek.config import extras
from odradek.pipelines.arguments import seconds
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.follow.follower import Follower
from odradek.pipelines.inputs import STDIN, files
from odradek.pipelines.own.source import NOTE, listed
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Line, PipelineError, Places, StoppedError

LINES_PER_BATCH = 20_000
POLL_S = 0.2
END_S = 10.0
"""How long the follower may write on after the user has stopped the pipeline."""
DAYS_SHOWN = 10


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Ship the lines, load them into the lake, and reconcile."""
    from examples.logs.check import reconcile

    _check_output(places, is_followed=options.follow)
    places.create(TOPIC)
    lake = Lake(places)
    shipped = (
        _follow(console, places, lake, options)
        if options.follow
        else _ship(console, places, options)
    )
    console.print(
        f"{shipped.lines_sent} lines of {len(shipped.contents)} files are in the topic {TOPIC}"
    )
    if not shipped.lines_sent:
        raise PipelineError(f"there are no lines in {', '.join(map(str, options.input))}")
    lake.load(TOPIC, LINES_PER_BATCH)
    _print_days(console, lake)
    console.print(f"\nThe last lines with {options.search!r}:")
    for row in lake.search(options.search, 5).collect():
        console.print(f"  {row.time} {Path(row.file).name}:{row.line} {row.text}", markup=False)
    return reconcile(shipped, lake.files())


def _check_output(places: Places, *, is_followed: bool) -> None:
    """Check that a run that continues has `--follow` if the first one had it.

    Raises:
        PipelineError: it differs.
    """
    path = places.output / f"{TOPIC}{NOTE}"
    if not path.exists():
        places.output.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"follow": is_followed}), encoding="utf-8")
    elif json.loads(path.read_text(encoding="utf-8")) != {"follow": is_followed}:
        raise PipelineError(
            f"{places.output} has the results of a run {'without' if is_followed else 'with'} --follow: "
            "remove it, or choose another --output"
        )


def _ship(console: Console, places: Places, options: argparse.Namespace) -> Shipped:
    shipped, shipment = ship(places, files(options.input, places.output / "input"))
    for text in listed(shipment):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    return shipped


def _follow(console: Console, places: Places, lake: Lake, options: argparse.Namespace) -> Shipped:
    """Follow the files for some time, or until the user stops the pipeline.

    Raises:
        StoppedError: the user has stopped it.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    follower = Follower(places, TOPIC, options.input, value_of_log, say)
    ending = threading.Event()
    thread = threading.Thread(target=follower.run, args=(ending,), name="follower", daemon=True)
    query = lake.follow(TOPIC, LINES_PER_BATCH)
    thread.start()
    say(
        "Following; Ctrl-C stops"
        if options.seconds is None
        else f"Following for {options.seconds:g} s"
    )
    ends_at = math.inf if options.seconds is None else time.monotonic() + options.seconds
    while time.monotonic() < ends_at and thread.is_alive() and not places.stopping.wait(POLL_S):
        error = query.exception()
        if error is not None:
            break
    ending.set()
    while thread.is_alive() and not places.stopping.is_set():
        thread.join(POLL_S)
    thread.join(END_S)
    if follower.error is not None:
        raise follower.error
    if places.stopping.is_set():
        raise StoppedError("stopped")
    if (error := query.exception()) is not None:
        raise error
    query.stop()
    for text in follower.left:
        say(text)
    return followed(follower)


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
    parser.add_argument(
        "--follow", action="store_true", help="wait for more lines, also when files are rotated"
    )
    parser.add_argument(
        "--seconds", type=seconds, help="how long to follow; without it until Ctrl-C"
    )
    parser.add_argument("--search", default="install", help="a word to search in the lake")


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: there is no such file, or no file at all, or DuckDB is not installed.
    """
    if options.follow and STDIN in options.input:
        raise ValueError("--follow needs files: the standard input cannot be followed")
    if options.seconds is not None and not options.follow:
        raise ValueError("--seconds needs --follow")
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
