"""From the topic to tables: a replica that follows the changes, and a rebuilt table.

The topic is compacted, so it keeps the last change of each key, and with it the whole table.
Records of a key are in one partition, so the order of its changes is the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from examples.commitlog import database
from examples.commitlog.database import Replica
from odradek.pipelines.places import Places

AIRCRAFT = "aircraft"
ROW = "tailnum STRING, carrier STRING, airport STRING, flights INT, seen BIGINT"


def follow(places: Places, replica: Replica, per_batch: int) -> None:
    """Apply the changes that are there now, and that the replica does not have yet."""

    def apply(changes: DataFrame, batch: int) -> None:
        # An `orderBy` of Spark would read the records twice, once to find the ranges.
        rows = _fields(changes).collect()
        replica.apply(batch, _pairs(sorted(rows, key=lambda row: (row.partition, row.offset))))

    query = (
        places.stream(AIRCRAFT, per_batch=per_batch)
        .writeStream.foreachBatch(apply)
        .queryName("replica")
        .option("checkpointLocation", places.checkpoint("replica"))
        .trigger(availableNow=True)
        .start()
    )
    places.wait_for(query)


def rebuild(places: Places, path: Path) -> Replica:
    """Make a table from the last change of each key."""
    newest = (
        places.read(AIRCRAFT)
        .groupBy("key")
        .agg(sf.max_by("value", sf.struct("partition", "offset")).alias("value"))
    )
    rebuilt = Replica(path)
    rebuilt.apply(0, _pairs(_fields(newest).where("content IS NOT NULL").collect()))
    return rebuilt


def changes_written(places: Places) -> int:
    """Return the number of changes that were written to the topic.

    It is the sum of the partitions' last offsets, because compaction removes old changes.
    """
    last = places.read(AIRCRAFT).groupBy("partition").agg(sf.max("offset").alias("last"))
    return sum(row.last + 1 for row in last.collect())


def _fields(changes: DataFrame) -> DataFrame:
    content = sf.from_json(sf.col("value").cast("string"), ROW).alias("content")
    return changes.select("*", sf.col("key").cast("string").alias("tailnum"), content)


def _pairs(rows: list[Row]) -> Iterator[tuple[str, database.Row | None]]:
    for each in rows:
        yield each.tailnum, None if each.content is None else tuple(each.content)
