"""The streaming query from the topic to Parquet files, and queries over these files.

The query finds the time and the level of each line. Files are partitioned by the day, so a search
with a day reads only the files of this day. Spark's file sink writes each micro-batch once.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from odradek.pipelines.places import Places

LINE = "file STRING, line INT, text STRING"
TIME = r"(\d{4}-\d{2}-\d{2})[ T]+(\d{2}:\d{2}:\d{2})"
"""The time of a line in the logs of dpkg, apt, systemd, Spark's event logs, and many others."""
LEVEL = r"(?i)\b(fatal|critical|error|warning|warn|info|debug)\b"
UNDATED = "undated"


@dataclass(frozen=True)
class Lake:
    """The Parquet files in the output of the pipeline."""

    places: Places

    @property
    def path(self) -> str:
        """The directory of the files."""
        return str(self.places.output / "lake")

    def load(self, topic: str, lines_per_batch: int) -> None:
        """Add the lines of a topic that are not in the lake yet."""
        lines = self.places.stream(topic, LINE, lines_per_batch, group="lake")
        query = (
            parsed(lines)
            .writeStream.format("parquet")
            .queryName("lake")
            .partitionBy("day")
            .option("path", self.path)
            .option("checkpointLocation", self.places.checkpoint("lake"))
            .trigger(availableNow=True)
            .start()
        )
        self.places.wait_for(query)

    def read(self) -> DataFrame:
        """Return all lines."""
        return self.places.spark.read.parquet(self.path)

    def search(self, word: str, limit: int) -> DataFrame:
        """Return the last lines with a word, in any case."""
        found = self.read().where(sf.lower("text").contains(word.lower()))
        return found.orderBy(sf.desc("time"), "file", "line").limit(limit)

    def reconcile(self, shipped: dict[str, int]) -> list[tuple[str, int, int]]:
        """Return (file, lines shipped, different lines in the lake), and a line for all files.

        A line that is in the lake twice makes the last line differ.
        """
        lines = (
            self.read()
            .groupBy("file")
            .agg(sf.count("*").alias("count"), sf.countDistinct("line").alias("different"))
        )
        found = {row.file: row for row in lines.collect()}
        result = [
            (file, count, found[file].different if file in found else 0)
            for file, count in shipped.items()
        ]
        total = sum(row["count"] for row in found.values())
        return [*result, ("all files", sum(shipped.values()), total)]


def parsed(lines: DataFrame) -> DataFrame:
    """Return lines with their time, level and day."""
    day, clock = (sf.regexp_extract("text", TIME, group) for group in (1, 2))
    time = sf.try_to_timestamp(sf.concat_ws(" ", day, clock), sf.lit("yyyy-MM-dd HH:mm:ss"))
    level = sf.nullif(sf.lower(sf.regexp_extract("text", LEVEL, 1)), sf.lit(""))
    timed = lines.withColumns({"time": time, "level": level})
    day_of = sf.coalesce(sf.date_format("time", "yyyy-MM-dd"), sf.lit(UNDATED))
    return timed.withColumn("day", day_of)
