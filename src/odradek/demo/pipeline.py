"""The streaming queries, which compute hourly delays and write them to Parquet.

The first query is stateful and has event-time watermarks:

    nyc.flights ──┬─ left outer join by airport and hour ── window of 1 hour ── nyc.delays
    nyc.weather ──┘            │                             by airport and weather
    nyc.planes (read once) ────┘ seats by tail number

The second query copies nyc.delays to Parquet files. Both queries run until they have read all
records (Trigger.AvailableNow). A restarted query continues from its checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own custom)
from pyspark.sql.streaming.query import StreamingQuery

from odradek.demo.data import WIND_SPEED_MAX, YEAR_END
from odradek.demo.topics import Topics

FLIGHT = """carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    event_time TIMESTAMP, scheduled TIMESTAMP, cancelled BOOLEAN, dep_delay INT, arr_delay INT,
    distance INT"""
REPORT = (
    "origin STRING, hour TIMESTAMP, temp DOUBLE, precip DOUBLE, visib DOUBLE, wind_speed DOUBLE"
)
DELAYS = """hour TIMESTAMP, origin STRING, weather STRING, flights BIGINT, cancelled BIGINT,
    late15 BIGINT, delay_minutes BIGINT, seats BIGINT"""

LATENESS = "2 days"
"""The watermark delay. An event arrives up to twelve hours late because of the time in the air,
and later because of differences between partitions."""
LATE_MINUTES = 15
"""The delay from which a flight is late, according to the U.S. Department of Transportation."""
BATCHES_MIN = 4
FLIGHTS_PER_BATCH = 42_500
"""Per micro-batch; the year has eight micro-batches."""


@dataclass(frozen=True, slots=True)
class Places:
    """The locations that the pipeline reads and writes."""

    servers: str
    topics: Topics
    output: Path

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the first query."""
        return self.output / "checkpoints" / "delays"

    @property
    def parquet_checkpoint(self) -> Path:
        """The checkpoint of the second query."""
        return self.output / "checkpoints" / "parquet"

    @property
    def parquet(self) -> Path:
        """The results as files."""
        return self.output / "delays.parquet"


def read(spark: SparkSession, places: Places, topic: str) -> DataFrame:
    """Read all records of a topic."""
    return (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", places.servers)
        .option("subscribe", topic)
        .load()
    )


def stream(spark: SparkSession, places: Places, topic: str, per_batch: int) -> DataFrame:
    """Read a topic from its beginning in micro-batches. The consumer group shows the progress."""
    return (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", places.servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .option("groupId", "odradek-demo")
        .load()
    )


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return the fields of JSON values; null if a value does not have the schema."""
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("v")).select(
        "v.*"
    )


def latest(records: DataFrame, schema: str) -> DataFrame:
    """Return the last value of each key of a compacted topic."""
    newest = records.groupBy("key").agg(F.max_by("value", F.struct("partition", "offset")))
    return parsed(newest.toDF("key", "value"), schema)


def is_countable() -> Column:
    """Return the condition that a flight has an airport and a time."""
    return F.col("origin").isNotNull() & F.col("event_time").isNotNull()


def is_possible() -> Column:
    """Return the condition that a weather report has an airport, a time, and a possible wind."""
    wind = F.coalesce("wind_speed", F.lit(0.0))
    return F.col("origin").isNotNull() & F.col("hour").isNotNull() & (wind <= WIND_SPEED_MAX)


def weather_class() -> Column:
    """Return a word for the weather. The worst weather has precedence."""
    return (
        F.when(F.col("visib").isNull(), "no report")
        .when((F.col("precip") > 0) & (F.col("temp") <= 33), "snow and ice")
        .when(F.col("precip") > 0, "rain")
        .when(F.col("visib") < 3, "fog")
        .when(F.col("wind_speed") >= 20, "wind")
        .otherwise("fair")
    )


def delays(flights: DataFrame, reports: DataFrame, planes: DataFrame) -> DataFrame:
    """Return the first query, from streams of flights and weather to rows of `DELAYS`.

    The last event of each stream only advances the watermark. The query then removes the event by
    its time, which is after the end of the year. Spark would evaluate a condition on another column
    before the watermark.
    """
    flights = (
        flights.withColumn("hour", F.date_trunc("hour", "event_time"))
        .withWatermark("hour", LATENESS)
        .where(F.col("hour") < F.lit(YEAR_END))
        .join(F.broadcast(planes), "tailnum", "left_outer")
    )
    reports = reports.withWatermark("hour", LATENESS).where(F.col("hour") < F.lit(YEAR_END))
    joined = flights.join(reports, ["origin", "hour"], "left_outer")
    delay = F.coalesce(F.col("dep_delay"), F.lit(0))
    grouped = joined.groupBy(
        F.window("hour", "1 hour").alias("window"), "origin", weather_class().alias("weather")
    ).agg(
        F.count("*").alias("flights"),
        F.sum(F.col("cancelled").cast("long")).alias("cancelled"),
        F.sum((delay >= LATE_MINUTES).cast("long")).alias("late15"),
        F.sum(delay.cast("long")).alias("delay_minutes"),
        F.sum(F.coalesce("seats", F.lit(0)).cast("long")).alias("seats"),
    )
    return grouped.select(F.col("window.start").alias("hour"), *grouped.columns[1:])


def start_delays(spark: SparkSession, places: Places, flights: int, reports: int) -> StreamingQuery:
    """Start the first query. `flights` and `reports` are the total numbers of records."""
    topics = places.topics
    batches = max(BATCHES_MIN, -(-flights // FLIGHTS_PER_BATCH))
    planes = latest(read(spark, places, topics.planes), "tailnum STRING, seats INT").cache()
    rows = delays(
        parsed(stream(spark, places, topics.flights, -(-flights // batches)), FLIGHT).where(
            is_countable()
        ),
        parsed(stream(spark, places, topics.weather, -(-reports // batches)), REPORT).where(
            is_possible()
        ),
        planes,
    )
    key = F.concat_ws("|", F.date_format("hour", "yyyy-MM-dd'T'HH:mm'Z'"), "origin", "weather")
    records = rows.select(key.alias("key"), F.to_json(F.struct(*rows.columns)).alias("value"))
    return (
        records.writeStream.format("odradek")
        .queryName("delays")
        .option("kafka.bootstrap.servers", places.servers)
        .option("topic", topics.delays)
        .option("checkpointLocation", str(places.checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def start_parquet(spark: SparkSession, places: Places) -> StreamingQuery:
    """Start the second query."""
    records = stream(spark, places, places.topics.delays, 1_000_000)
    return (
        parsed(records, DELAYS)
        .coalesce(1)
        .writeStream.format("parquet")
        .queryName("parquet")
        .option("path", str(places.parquet))
        .option("checkpointLocation", str(places.parquet_checkpoint))
        .trigger(availableNow=True)
        .start()
    )
