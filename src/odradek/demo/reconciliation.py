"""Checks in a batch job that no record is missing, and that the results are right.

The job compares three results: the results topic, the Parquet files, and the results of pandas on
the original tables. Spark writes at least once, so a killed query may write rows of its last
micro-batch again. Such rows have the same key and the same content, and count once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own custom)

from odradek.demo import pipeline
from odradek.demo.data import WIND_SPEED_MAX, YEAR_END, Tables
from odradek.demo.pipeline import LATE_MINUTES, Places

DEPARTED_MIN = 100
"""The minimum number of flights for a significant mean."""
KEY = ["hour", "origin", "weather"]
MEASURES = ["flights", "cancelled", "late15", "delay_minutes", "seats"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the reconciliation. `check` describes the expected count.

    `good` says whether the count is as expected, and is None if nothing is expected.
    """

    name: str
    count: int
    check: str = ""
    good: bool | None = None


@dataclass(slots=True)
class Report:
    """The reconciliation, as groups of lines.

    `results` has the results as a table. `routes` has delays by carrier and destination.
    """

    results: pd.DataFrame
    routes: pd.DataFrame
    groups: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether all checks succeed."""
        return all(row.good is not False for rows in self.groups.values() for row in rows)


def reconcile(spark: SparkSession, places: Places, tables: Tables, late: int) -> Report:
    """Reconcile every record. `late` is the number of rows that Spark dropped as too late."""
    topic = _results_of_topic(spark, places)
    files = _to_pandas(spark.read.parquet(str(places.parquet)).distinct())
    results = topic[[*KEY, *MEASURES]]
    records = int(topic["records"].sum())
    conflicts = int((topic["contents"] > 1).sum())
    flights, routes = _flights(spark, places, tables, results, late)
    report = Report(results=results, routes=routes)
    report.groups["flights"] = flights
    report.groups["weather"] = _weather(spark, places, tables)
    report.groups["results"] = [
        Row("records in the topic", records),
        Row("  of them again, after a restart", records - len(results)),
        Row("  same key, other content", conflicts, "none", conflicts == 0),
        Row("hours by airport and weather", len(results)),
        Row("rows of Parquet that differ", *_differences(files, results)),
        Row("rows of pandas that differ", *_differences(canonical(tables), results)),
    ]
    return report


# -- flights and weather --------------------------------------------------------------------


def _flights(
    spark: SparkSession, places: Places, tables: Tables, results: pd.DataFrame, late: int
) -> tuple[list[Row], pd.DataFrame]:
    """Reconcile the flights. Return the lines, and the delays by carrier and destination."""
    topic = places.topics.flights
    records = pipeline.parsed(pipeline.read(spark, places, topic), pipeline.FLIGHT)
    routes = _by(records, pipeline.is_countable(), "event_time", ["carrier", "dest"])
    stored, valid, clock = _counts(routes)
    consumed = read_by_query(places.checkpoint, topic)
    aggregated = int(results["flights"].sum())
    invalid = stored - valid - clock
    total = aggregated + late + invalid + clock
    produced = len(tables.flights) + 1
    lines = [
        Row("produced, with the end of the year", produced),
        Row("stored in the topic", stored, "as produced", stored == produced),
        Row("read by the query (its checkpoint)", consumed, "as stored", consumed == stored),
        Row("  aggregated", aggregated),
        Row("  dropped as too late", late),
        Row("  invalid", invalid),
        Row("  end of the year", clock),
        Row("  sum", total, "as read", total == consumed),
    ]
    return lines, routes


def _weather(spark: SparkSession, places: Places, tables: Tables) -> list[Row]:
    topic = places.topics.weather
    records = pipeline.parsed(pipeline.read(spark, places, topic), pipeline.REPORT)
    stored, valid, clock = _counts(_by(records, pipeline.is_possible(), "hour"))
    consumed = read_by_query(places.checkpoint, topic)
    refused = int((tables.weather["wind_speed"] > WIND_SPEED_MAX).sum())
    produced = len(tables.weather) + 1
    total = valid + refused + clock
    return [
        Row("produced, with the end of the year", produced),
        Row("stored in the topic", stored, "as produced", stored == produced),
        Row("read by the query (its checkpoint)", consumed, "as stored", consumed == stored),
        Row("  usable", valid),
        Row("  impossible (a wind of 1048 mph)", refused),
        Row("  end of the year", clock),
        Row("  sum", total, "as read", total == consumed),
    ]


def _by(
    records: DataFrame, is_valid: Column, time: str, columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return counts and delays of records by `columns`.

    The records are also grouped by whether a record is valid (`valid`), and whether it is the last
    event of a stream (`clock`).
    """
    is_clock = F.coalesce(F.col(time) >= F.lit(YEAR_END), F.lit(False))
    delay = F.col("dep_delay") if "dep_delay" in records.columns else F.lit(None).cast("int")
    rows = (
        records.groupBy(*columns, is_valid.alias("valid"), is_clock.alias("clock"))
        .agg(
            F.count("*").alias("records"),
            F.count(delay).alias("departed"),
            F.coalesce(F.sum(delay), F.lit(0)).alias("delay_minutes"),
        )
        .collect()
    )
    names = [*columns, "valid", "clock", "records", "departed", "delay_minutes"]
    return pd.DataFrame([tuple(row) for row in rows], columns=names)


def _counts(groups: pd.DataFrame) -> tuple[int, int, int]:
    """Return the number of all records, of valid records in the year, and of last events."""
    records, clock, valid = groups["records"], groups["clock"], groups["valid"]
    return (
        int(records.sum()),
        int(records[valid & ~clock].sum()),
        int(records[clock].sum()),
    )


def read_by_query(checkpoint: Path, topic: str) -> int:
    """Return how many offsets of a topic a query has read, according to its checkpoint."""
    committed = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    lines = (checkpoint / "offsets" / str(committed)).read_text(encoding="utf-8").splitlines()
    ends = [json.loads(line) for line in lines[2:]]  # after the version and the metadata
    return sum(sum(end[topic].values()) for end in ends if topic in end)


def longest_waits(
    spark: SparkSession, places: Places, routes: pd.DataFrame
) -> dict[str, list[str]]:
    """Return the airlines and the destinations with the longest mean delays.

    Their names come from the reference topics.
    """
    found = {}
    for title, topic, schema, code in (
        ("airline", places.topics.airlines, "carrier STRING, name STRING", "carrier"),
        ("destination", places.topics.airports, "faa STRING, name STRING", "dest"),
    ):
        table = pipeline.latest(pipeline.read(spark, places, topic), schema)
        names = {row[0]: row[1] for row in table.collect()}
        sums = routes.groupby(code)[["departed", "delay_minutes"]].sum()
        sums = sums[sums["departed"] >= DEPARTED_MIN]
        mean = (sums["delay_minutes"] / sums["departed"]).nlargest(3)
        found[title] = [f"{names.get(each, each)} {wait:.0f} min" for each, wait in mean.items()]
    return found


# -- results --------------------------------------------------------------------------------


def _results_of_topic(spark: SparkSession, places: Places) -> pd.DataFrame:
    """Return the last value of each key, with its number of `records` and of `contents`.

    `contents` is the number of different values of the key.
    """
    records = pipeline.read(spark, places, places.topics.delays)
    by_key = records.groupBy("key").agg(
        F.count("*").alias("records"),
        F.count_distinct("value").alias("contents"),
        F.max_by("value", F.struct("partition", "offset")).alias("value"),
    )
    fields = F.from_json(F.col("value").cast("string"), pipeline.DELAYS).alias("v")
    return _to_pandas(by_key.select("records", "contents", fields).select("*", "v.*").drop("v"))


def _differences(expected: pd.DataFrame, results: pd.DataFrame) -> tuple[int, str, bool]:
    """Return the number of rows that are in only one of the tables, which should be 0."""
    columns = [*KEY, *MEASURES]
    both = expected[columns].merge(results[columns], how="outer", on=columns, indicator=True)
    count = int((both["_merge"] != "both").sum())
    return count, "none", count == 0


def _to_pandas(rows: DataFrame) -> pd.DataFrame:
    """Convert rows to pandas. The column `hour` becomes a time in UTC."""
    seconds = rows.withColumn("hour", F.unix_timestamp("hour"))
    table = pd.DataFrame([tuple(row) for row in seconds.collect()], columns=seconds.columns)
    return table.assign(hour=pd.to_datetime(table["hour"], unit="s", utc=True))


def canonical(tables: Tables) -> pd.DataFrame:
    """Compute the expected results with pandas from the original tables."""
    flights = tables.flights.assign(hour=tables.flights["event_time"].dt.floor("h"))
    weather = tables.weather
    possible = weather[~(weather["wind_speed"] > WIND_SPEED_MAX)]
    joined = flights[["hour", "origin", "tailnum", "cancelled", "dep_delay"]].merge(
        possible, on=["origin", "hour"], how="left"
    )
    joined = joined.merge(tables.planes[["tailnum", "seats"]], on="tailnum", how="left")
    delay = joined["dep_delay"].fillna(0).astype("int64")
    joined = joined.assign(
        weather=_weather_class(joined),
        delay_minutes=delay,
        late15=(delay >= LATE_MINUTES).astype("int64"),
        cancelled=joined["cancelled"].astype("int64"),
        seats=joined["seats"].fillna(0).astype("int64"),
        flights=1,
    )
    return joined.groupby(KEY, as_index=False)[MEASURES].sum()


def _weather_class(joined: pd.DataFrame) -> pd.Series:
    """Return what `pipeline.weather_class` returns, for pandas."""
    kind = pd.Series("fair", index=joined.index)
    kind[joined["wind_speed"] >= 20] = "wind"
    kind[joined["visib"] < 3] = "fog"
    kind[joined["precip"] > 0] = "rain"
    kind[(joined["precip"] > 0) & (joined["temp"] <= 33)] = "snow and ice"
    kind[joined["visib"].isna()] = "no report"
    return kind
