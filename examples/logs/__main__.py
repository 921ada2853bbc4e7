"""`python -m examples.logs`: see README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

import odradek.spark
from examples.logs.lake import Lake
from examples.logs.shipping import log_files, ship
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.demo import broker

TOPIC = "logs"
LINES_PER_BATCH = 20_000
DAYS_SHOWN = 10


def main() -> int:
    """Run the pipeline, and return 0 if each line is in the lake once."""
    parser = argparse.ArgumentParser(prog="python -m examples.logs")
    parser.add_argument("--logs", type=Path, nargs="+", default=[Path("/var/log")])
    parser.add_argument("--search", default="install", help="a word to search in the lake")
    parser.add_argument("--output", type=Path, default=Path("logs-output"))
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; remove it, or choose another --output")
    files = log_files(options.logs)
    if not files:
        parser.error(f"no readable text files in {', '.join(map(str, options.logs))}")
    running = broker.start(options.output / "broker")
    try:
        return _run(Console(), options, files, running.servers)
    finally:
        running.stop()


def _run(console: Console, options: argparse.Namespace, files: list[Path], servers: str) -> int:
    with Cluster(servers) as cluster:
        made = create_topics(cluster, [NewTopic(TOPIC, 2, 1)])[TOPIC]
        if isinstance(made, Exception):
            raise made
    shipped = ship(servers, TOPIC, files)
    console.print(f"{sum(shipped.values())} lines of {len(shipped)} files are in the topic {TOPIC}")
    spark = odradek.spark.session("logs", conf={"spark.sql.shuffle.partitions": "2"})
    lake = Lake(spark, options.output)
    lake.load(servers, TOPIC, LINES_PER_BATCH)
    lines = lake.reconcile(shipped)
    _print_days(console, lake)
    console.print(f"\nThe last lines with {options.search!r}:")
    for row in lake.search(options.search, 5).collect():
        console.print(f"  {row.time} {Path(row.file).name}:{row.line} {row.text}", markup=False)
    table = Table("reconciled", "lines shipped", "lines in the lake")
    for what, expected, found in lines:
        table.add_row(what, str(expected), str(found), style="" if expected == found else "red")
    console.print(table)
    spark.stop()
    return 0 if all(expected == found for _, expected, found in lines) else 1


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


if __name__ == "__main__":
    sys.exit(main())
