"""`python -m examples.metrics`: see README.md."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import odradek.spark
from examples.metrics import queries
from examples.metrics.queries import ALERT, ALERTS, METRICS, WINDOW, WINDOWS
from examples.metrics.sampling import Sampler
from examples.places import Places, show
from odradek.demo import broker
from odradek.demo.spark_work import CONF

BARS = " ▁▂▃▄▅▆▇█"


def main() -> int:
    """Run the pipeline, and return 0 if its results reconcile."""
    parser = argparse.ArgumentParser(prog="python -m examples.metrics")
    parser.add_argument("--seconds", type=float, default=30, help="how long to sample")
    parser.add_argument("--output", type=Path, default=Path("metrics-output"))
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; remove it, or choose another --output")
    console = Console()
    running = broker.start(options.output / "broker")
    try:
        return _run(console, options.output, options.seconds, running)
    finally:
        running.stop()


def _run(console: Console, output: Path, seconds: float, running: broker.RunningBroker) -> int:
    assert running.process is not None
    console.print("Starting Spark")
    spark = odradek.spark.session("metrics", conf=CONF)
    places = Places(spark, running.servers, output)
    places.create(METRICS, WINDOWS, ALERTS)
    sampler = Sampler(running.servers, METRICS, running.process.pid)
    sampler.start()
    active = queries.start(places, to_the_end=False)
    console.print(f"Streaming for {seconds:g} s")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.2)
        for query in active:
            if query.exception() is not None:
                raise query.exception()
    for query in active:
        query.stop()  # wherever it is
    sampler.end()
    queries.start(places, to_the_end=True)
    lines = queries.reconcile(places, sampler.count)
    _print_windows(console, places)
    code = show(console, lines)
    spark.stop()
    return code


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


if __name__ == "__main__":
    sys.exit(main())
