"""The changes of a person's own database, in Debezium's form, become a replica and a rebuilt table.

A change has the fields `op` (c, u, r or d), `before` and `after`, which are rows; with or without an
object `payload` around them. The key of a row is the text of its key columns.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from odradek.pipelines.own import options as own
from odradek.pipelines.own import stream
from odradek.pipelines.own.fields import TEXT, Field
from odradek.pipelines.own.source import END_NAME, Files, Source
from odradek.pipelines.own.topic import Topic
from odradek.pipelines.picture import Bars, draw
from odradek.pipelines.places import Line, Places

CHANGES = "changes"
OPERATIONS = ("c", "u", "r", "d")
BASE = (
    Field("op", TEXT, ("op", "payload.op"), values=OPERATIONS),
    Field("after", TEXT, ("after", "payload.after"), is_required=False),
)
SEPARATOR = "\x1f"
"""Between the values of several key columns."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, content TEXT);
CREATE TABLE IF NOT EXISTS applied (batch INTEGER);
"""

Change = tuple[str, str | None]
"""The key, and the row as JSON; None if it was deleted."""


def fields(key_columns: Iterable[str]) -> tuple[Field, ...]:
    """Return the fields of changes whose rows have some key columns."""
    places = ("after", "before", "payload.after", "payload.before")
    keys = [
        Field(f"key{number}", TEXT, tuple(f"{place}.{column}" for place in places))
        for number, column in enumerate(key_columns)
    ]
    return (*keys, *BASE)


def key_of(names: Iterable[str]) -> Column:
    """Return the key of a change."""
    return sf.concat_ws(SEPARATOR, *names).alias("row_key")


def changes(rows: DataFrame, key_names: Iterable[str]) -> DataFrame:
    """Return (row_key, content) of changes; the content is null if the row was deleted."""
    content = sf.when(sf.col("op") != "d", sf.col("after")).alias("content")
    return rows.select(key_of(key_names), content, "partition", "offset")


def newest(changed: DataFrame) -> DataFrame:
    """Return the last change of each key."""
    last = sf.max_by(sf.struct("content"), sf.struct("partition", "offset")).alias("last")
    return changed.groupBy("row_key").agg(last).select("row_key", "last.content")


class Table:
    """A table in a file of SQLite. It remembers which micro-batches it contains."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as database:
            database.executescript(SCHEMA)

    def apply(self, batch: int, changed: Iterable[Change]) -> None:
        """Apply the changes of a micro-batch once, even if Spark repeats the micro-batch."""
        with closing(sqlite3.connect(self.path)) as database, database:
            (last,) = database.execute("SELECT coalesce(max(batch), -1) FROM applied").fetchone()
            if batch <= last:
                return
            for key, content in changed:
                if content is None:
                    database.execute("DELETE FROM rows WHERE key = ?", (key,))
                else:
                    database.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (key, content))
            database.execute("INSERT INTO applied VALUES (?)", (batch,))

    def rows(self) -> list[Change]:
        """Return (key, content) of all rows."""
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute("SELECT key, content FROM rows").fetchall()


def start(
    places: Places, source: Source, key_names: list[str], replica: Table, *, to_the_end: bool
) -> list[StreamingQuery]:
    """Start to apply the changes that the replica does not have yet."""

    def apply(changed: DataFrame, batch: int) -> None:
        # An `orderBy` of Spark would read the records twice, once to find the ranges.
        ordered = sorted(changed.collect(), key=lambda row: (row.partition, row.offset))
        replica.apply(batch, ((row.row_key, row.content) for row in ordered))

    rows = source.stream(places, source.per_batch, group="replica")
    writer = (
        changes(rows, key_names)
        .where(sf.col("row_key") != SEPARATOR.join([END_NAME] * len(key_names)))
        .writeStream.foreachBatch(apply)
        .queryName("replica")
        .option("checkpointLocation", places.checkpoint("replica"))
    )
    return [places.start(writer, to_the_end=to_the_end)]


def rebuild(places: Places, source: Source, key_names: list[str], path: Path) -> Table:
    """Make a table from the last change of each key."""
    path.unlink(missing_ok=True)
    rebuilt = Table(path)
    rows = stream.rows(source.read(places), source.fields)
    left = newest(changes(rows, key_names)).where("content IS NOT NULL")
    rebuilt.apply(0, map(tuple, left.collect()))
    return rebuilt


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send the changes, follow them, rebuild the table, and reconcile."""
    from examples.commitlog.check import reconcile

    wanted = own.columns_of(options, fields(options.key.split(",")))
    key_names = [each.name for each in wanted if each.name.startswith("key")]
    source: Source
    if options.topic:
        source = Topic(options.topic, wanted, own.following(options))
    else:
        source = Files(CHANGES, wanted, key_names, options.input, own.wanted(options))
    source.begin(console, places)
    replica = Table(places.output / "replica.db")
    begin = partial(start, places, source, key_names, replica)
    source.follow(console, places, partial(begin, to_the_end=False))
    begin(to_the_end=True)
    rebuilt = rebuild(places, source, key_names, places.output / "rebuilt.db")
    console.print(f"{len(replica.rows()):,} rows in {replica.path} and {rebuilt.path}")
    _draw(console, places, stream.rows(source.read(places), source.fields))
    return reconcile(places, source, key_names, {"replica": replica, "rebuilt table": rebuilt})


def _draw(console: Console, places: Places, rows: DataFrame) -> None:
    kinds = {"c": "created", "u": "updated", "r": "read at the start", "d": "deleted"}
    counts = {row.op: float(row["count"]) for row in rows.groupBy("op").count().collect()}
    bars = {text: counts.get(op, 0.0) for op, text in kinds.items()}
    draw(console, places, "commitlog", "Changes of the table", [Bars("Changes by kind", bars)])
