"""The two stages, each a streaming query of its own. `check.py` checks their results.

    flights.raw ── airline, aircraft, status ── flights.enriched ── by day and airline ── flights.daily
    airlines, planes (compacted, read at the start) ──┘

Both stages write exactly once. They only share the topic between them, so each one can be stopped,
changed or run elsewhere without the other.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from odradek.demo.pipeline import FLIGHT, LATE_MINUTES, latest
from odradek.pipelines.places import Places

RAW, ENRICHED, DAILY = "flights.raw", "flights.enriched", "flights.daily"
AIRLINES, PLANES = "airlines", "planes"
AIRLINE = "carrier STRING, name STRING"
PLANE = "tailnum STRING, manufacturer STRING, seats INT"
FLIGHT_AND_MORE = (
    "flight STRING, origin STRING, dest STRING, event_time TIMESTAMP, airline STRING, "
    "manufacturer STRING, seats INT, status STRING"
)
DAY = "day STRING, airline STRING, flights BIGINT, cancelled BIGINT, late BIGINT, seats BIGINT"
LATENESS = "2 days"
"""An event is sent when the flight has landed, up to twelve hours after its event time."""


def status() -> Column:
    """Return a word for how a flight departed."""
    return (
        sf.when(sf.col("cancelled"), "cancelled")
        .when(sf.col("dep_delay") >= LATE_MINUTES, "late")
        .otherwise("on time")
    )


def enriched(flights: DataFrame, airlines: DataFrame, planes: DataFrame) -> DataFrame:
    """Return the first stage: the names of airlines, and the seats of aircraft."""
    return (
        flights.join(sf.broadcast(airlines), "carrier", "left")
        .join(sf.broadcast(planes), "tailnum", "left")
        .select(
            sf.concat("carrier", "flight").alias("flight"),
            "origin",
            "dest",
            "event_time",
            sf.col("name").alias("airline"),
            "manufacturer",
            "seats",
            status().alias("status"),
        )
    )


def daily(flights: DataFrame) -> DataFrame:
    """Return the second stage: counts by day and airline."""
    timed = flights.withWatermark("event_time", LATENESS)
    grouped = timed.groupBy(sf.window("event_time", "1 day").alias("window"), "airline").agg(
        sf.count("*").alias("flights"),
        sf.count_if(sf.col("status") == "cancelled").alias("cancelled"),
        sf.count_if(sf.col("status") == "late").alias("late"),
        sf.sum(sf.coalesce("seats", sf.lit(0))).cast("long").alias("seats"),
    )
    day = sf.date_format("window.start", "yyyy-MM-dd").alias("day")
    return grouped.select(day, "airline", "flights", "cancelled", "late", "seats")


def tables(places: Places) -> tuple[DataFrame, DataFrame]:
    """Return airlines and planes: the last value of each key of a compacted topic."""
    airlines = latest(places.read(AIRLINES), AIRLINE).cache()
    return airlines, latest(places.read(PLANES), PLANE).cache()


def run(places: Places, per_batch: int) -> None:
    """Run both stages until they have processed all records that are there now."""
    first = enriched(places.stream(RAW, FLIGHT, per_batch), *tables(places))
    places.write(first, ENRICHED, "flight")
    second = daily(places.stream(ENRICHED, FLIGHT_AND_MORE, per_batch))
    places.write(second, DAILY, sf.concat_ws("|", "day", "airline"))
