"""`python -m examples.metrics`: see README.md."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from examples.metrics import formats, own, queries
from examples.metrics.own import Rule
from examples.metrics.queries import ALERT, ALERTS, METRICS, WINDOW, WINDOWS
from examples.metrics.sampling import Sampler
from odradek.pipelines.arguments import duration_s, seconds
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.inputs import files
from odradek.pipelines.own import options as own_options
from odradek.pipelines.picture import Lines, draw
from odradek.pipelines.places import Line, Places

BARS = " ▁▂▃▄▅▆▇█"


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Sample while the queries run, stop them anywhere, continue them to the end, and reconcile."""
    from examples.metrics.check import reconcile_samples

    if continues(options):
        return own.run(console, places, options)
    places.create(METRICS, WINDOWS, ALERTS)
    sampler = Sampler(places, METRICS)
    sampler.start()
    active = queries.start(places, to_the_end=False)
    length_s = options.seconds or own.SECONDS
    console.print(f"Streaming for {length_s:g} s")
    ends_at = time.monotonic() + length_s
    while time.monotonic() < ends_at and not places.stopping.wait(0.2):
        for query in active:
            error = query.exception()
            if error is not None:
                raise error
    for query in active:
        query.stop()  # wherever it is
    sampler.end()
    queries.start(places, to_the_end=True)
    _print_windows(console, places)
    return reconcile_samples(places, sampler.samples)


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
    panels = [
        Lines(name, {name: [(row.start, row["mean"]) for row in rows if row.name == name]})
        for name in sorted({row.name for row in rows})
    ]
    draw(console, places, "metrics", "This machine and the broker", panels)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    text = f"how long to sample or scrape ({own.SECONDS:g}), or to follow"
    own_options.add_arguments(parser, formats.PLAIN, text)
    parser.add_argument(
        "--scrape", nargs="+", metavar="URL", help="endpoints with the text of Prometheus"
    )
    parser.add_argument("--every", type=seconds, default=5, help="seconds between scrapes")
    parser.add_argument(
        "--kind",
        choices=(formats.ROWS, formats.OTLP),
        help="the values of --topic: rows with name, time and value (default), or OTLP",
    )
    parser.add_argument("--window", type=duration_s, default="15s", help="of own data")
    parser.add_argument(
        "--lateness",
        type=duration_s,
        default="1d",
        help="how much later than others a row of own data may come",
    )
    parser.add_argument(
        "--alert", type=_rule, action="append", default=[], metavar="METRIC>MEAN", help="repeatable"
    )


def _rule(text: str) -> Rule:
    metric, mark, limit = text.partition(">")
    try:
        return Rule(metric.strip(), float(limit if mark and metric.strip() else ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be like METRIC>0.9; it is {text!r}") from None


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: an option is wrong.
    """
    if options.scrape:
        if own_options.is_given(options) or options.follow:
            raise ValueError(
                "--scrape, --input and --topic exclude each other, and --follow needs a topic"
            )
        for url in options.scrape:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"--scrape {url!r}: an address begins with http:// or https://")
        return
    if options.kind is not None and not options.topic:
        raise ValueError("--kind needs --topic")
    kind = own.kind_of_files(files(options.input)) if options.input else formats.ROWS
    fields = formats.PLAIN if kind == formats.ROWS else ()
    is_sampled = not own_options.is_given(options)
    own_options.check(options, fields, has_other_seconds=is_sampled)


def continues(options: argparse.Namespace) -> bool:
    """Return whether the data is a person's own: such a run continues."""
    return bool(options.scrape) or own_options.is_given(options)


if __name__ == "__main__":
    sys.exit(command(Pipeline("metrics", run, add_arguments, check, True, continues)))
