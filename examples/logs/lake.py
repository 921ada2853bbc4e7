"""The streaming query from the topic to Parquet files, and queries over these files.

The query finds the time and the level of each line. Files are partitioned by the day, so a search
with a day reads only the files of this day. Spark's file sink writes each micro-batch once.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.pipelines.places import Places

LINE = "file STRING, generation INT, line INT, text STRING, modified BIGINT"
ROW = "file STRING, generation INT, line INT, text STRING, time TIMESTAMP, level STRING, day STRING"
"""Spark would take `day` for a date if all lines have one."""
TIME = r"(\d{4}-\d{2}-\d{2})[ T]+(\d{2}:\d{2}:\d{2})"
"""The time of a line in the logs of dpkg, apt, systemd, Spark's event logs, and many others."""
WEB_TIME = r"\[(\d{2}/[A-Za-z]{3}/\d{4}):(\d{2}:\d{2}:\d{2})"
"""The time of a line in the Common Log Format of web servers."""
SYSLOG_TIME = r"^(?:<\d{1,3}>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d{2}:\d{2}:\d{2})(?: |$)"
"""The time of a line of syslog, which has no year."""
LEVEL = r"(?i)(?<![0-9A-Za-z_])(fatal|critical|error|warning|warn|info|debug)(?![0-9A-Za-z_])"
UNDATED = "undated"
EVERY = "5 seconds"
"""How often lines of files that are followed get to the lake: each micro-batch makes files."""


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
        writer = self._writer(topic, lines_per_batch)
        self.places.wait_for(writer.trigger(availableNow=True).start())

    def follow(self, topic: str, lines_per_batch: int) -> StreamingQuery:
        """Start to add lines, until the query is stopped."""
        writer = self._writer(topic, lines_per_batch)
        return writer.trigger(processingTime=EVERY).start()

    def _writer(self, topic: str, lines_per_batch: int) -> DataStreamWriter:
        lines = self.places.stream(topic, LINE, lines_per_batch, group="lake")
        return (
            parsed(lines)
            .writeStream.format("parquet")
            .queryName("lake")
            .partitionBy("day")
            .option("path", self.path)
            .option("checkpointLocation", self.places.checkpoint("lake"))
        )

    def read(self) -> DataFrame:
        """Return all lines."""
        return self.places.spark.read.schema(ROW).parquet(self.path)

    def search(self, word: str, limit: int) -> DataFrame:
        """Return the last lines with a word, in any case."""
        found = self.read().where(sf.lower("text").contains(word.lower()))
        return found.orderBy(sf.desc("time"), "file", "line").limit(limit)

    def files(self) -> list[str]:
        """Return the Parquet files of committed micro-batches."""
        return [unquote(urlsplit(each).path) for each in self.read().inputFiles()]


def parsed(lines: DataFrame) -> DataFrame:
    """Return lines with their time, level and day."""
    time = sf.coalesce(
        _time(TIME, "yyyy-MM-dd HH:mm:ss"), _time(WEB_TIME, "dd/MMM/yyyy HH:mm:ss"), _syslog_time()
    )
    level = sf.nullif(sf.lower(sf.regexp_extract("text", LEVEL, 1)), sf.lit(""))
    timed = lines.withColumns({"time": time, "level": level})
    day_of = sf.coalesce(sf.date_format("time", "yyyy-MM-dd"), sf.lit(UNDATED))
    return timed.withColumn("day", day_of).drop("modified")


def _syslog_time() -> Column:
    """Return the time of a line of syslog: the last one that is not after the change of the file.

    It may be up to a day later, because the time zones of the line and of the file may differ.
    """
    written = sf.timestamp_millis("modified")
    parts = [sf.regexp_extract("text", SYSLOG_TIME, group) for group in (1, 2, 3)]

    def in_year(years_before: int) -> Column:
        year = (sf.year(written) - years_before).cast("string")
        return sf.try_to_timestamp(sf.concat_ws(" ", year, *parts), sf.lit("yyyy MMM d HH:mm:ss"))

    is_known = in_year(0) <= written + sf.expr("INTERVAL 1 DAY")
    return sf.when(is_known, in_year(0)).otherwise(in_year(1))


def _time(pattern: str, layout: str) -> Column:
    day, clock = (sf.regexp_extract("text", pattern, group) for group in (1, 2))
    return sf.try_to_timestamp(sf.concat_ws(" ", day, clock), sf.lit(layout))
