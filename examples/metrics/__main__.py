"""`python -m examples.metrics`: see README.md."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from examples.metrics import queries
from examples.metrics.queries import ALERT, ALERTS, METRICS, WINDOW, WINDOWS
from examples.metrics.sampling import Sampler
from odradek.pipelines.arguments import seconds
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.places import Line, Places

BARS = " ▁▂▃▄▅▆▇█"


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Sample while the queries run, stop them anywhere, continue them to the end, and reconcile."""
    places.create(METRICS, WINDOWS, ALERTS)
    sampler = Sampler(places, METRICS)
    sampler.start()
    active = queries.start(places, to_the_end=False)
    console.print(f"Streaming for {options.seconds:g} s")
    ends_at = time.monotonic() + options.seconds
    while time.monotonic() < ends_at and not places.stopping.wait(0.2):
        for query in active:
            if query.exception() is not None:
                raise query.exception()
    for query in active:
        query.stop()  # wherever it is
    sampler.end()
    queries.start(places, to_the_end=True)
    lines = queries.reconcile(places, sampler.count)
    _print_windows(console, places)
    return lines


def _print_windows(console: Console, places: Places) -> None:
    rows = places.read(WINDOWS, WINDOW).where("name <> 'clock'").orderBy("start").collect()
    alerts = places.read(ALERTS, ALERT).groupBy("name", "rule").count().collect()
    counts = {row.name: f"{row['count']} × {row.rule}" for row in alerts}
    table = Table("metric", "windows of 5 s", "mean", "max", "alerts")
    for name in sorted({row.name for row in rows}):
        means = [row["mean"] for row in rows if row.name == name]
        highest = max(row["max"] for row in rows if row.name == name)
        top = max(means) or 1.0
        bars = "".join(BARS[round(max(0.0, each) / top * (len(BARS) - 1))] for each in means)
        mean = sum(means) / len(means)
        table.add_row(name, bars, f"{mean:.4g}", f"{highest:.4g}", counts.get(name, ""))
    console.print(table)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    parser.add_argument("--seconds", type=seconds, default=30, help="how long to sample")


if __name__ == "__main__":
    sys.exit(command(Pipeline("metrics", run, add_arguments, is_example=True)))
