"""Computes with DuckDB, from the input, what the stages of own data must have, and compares."""

from __future__ import annotations

import pyarrow as pa

from examples.stages import queries
from examples.stages.own import DAILY, ENRICHED, REFERENCE_FIELDS
from odradek.demo.data import CLOCK_KEY, Tables
from odradek.demo.pipeline import LATE_MINUTES
from odradek.pipelines.own import given
from odradek.pipelines.own.given import Given, count, differing
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.own.source import Files, Source
from odradek.pipelines.places import Line, Places

LAST_NAMES = """
CREATE TABLE names AS SELECT key, name AS known FROM reference.rows
QUALIFY row_number() OVER (PARTITION BY key ORDER BY line DESC) = 1
"""
NO_NAMES = "CREATE TABLE names (key VARCHAR, known VARCHAR)"
EXPECTED_MIDDLE = """
CREATE TABLE expected_middle AS
SELECT time, key, coalesce(known, name, key) AS name, amount FROM rows LEFT JOIN names USING (key)
"""
EXPECTED_DAYS = """
SELECT strftime(time, '%Y-%m-%d') AS day, name, count(*) AS events,
    coalesce(sum(amount), 0)::DECIMAL(38,4) AS total
FROM expected_middle GROUP BY ALL
"""
INPUT_COLUMNS = {
    "flights": (
        "carrier", "flight", "tailnum", "origin", "dest", "event_time", "cancelled", "dep_delay",
    ),
    "planes": ("tailnum", "manufacturer", "seats"),
    "airlines": ("carrier", "name"),
}  # fmt: skip
EXPECTED_FLIGHTS = """
CREATE TABLE expected_flights AS
SELECT carrier || f.flight AS flight, origin, dest, event_time, name AS airline, manufacturer,
    seats::INT AS seats,
    CASE WHEN cancelled THEN 'cancelled' WHEN dep_delay >= $late THEN 'late' ELSE 'on time' END AS status
FROM flights f LEFT JOIN airlines USING (carrier) LEFT JOIN planes USING (tailnum)
"""
FLIGHTS = "SELECT * FROM enriched WHERE origin <> ''"
EXPECTED_FLIGHT_DAYS = """
SELECT strftime(event_time, '%Y-%m-%d') AS day, airline, count(*) AS flights,
    count_if(status = 'cancelled') AS cancelled, count_if(status = 'late') AS late,
    sum(coalesce(seats, 0))::BIGINT AS seats
FROM expected_flights GROUP BY ALL
"""
FLIGHT_COLUMNS = {
    "flight": "VARCHAR", "origin": "VARCHAR", "dest": "VARCHAR", "event_time": "TIMESTAMPTZ",
    "airline": "VARCHAR", "manufacturer": "VARCHAR", "seats": "INT", "status": "VARCHAR",
}  # fmt: skip
FLIGHT_DAY_COLUMNS = {
    "day": "VARCHAR", "airline": "VARCHAR", "flights": "BIGINT", "cancelled": "BIGINT",
    "late": "BIGINT", "seats": "BIGINT",
}  # fmt: skip
MIDDLE = "SELECT * FROM middle WHERE year(time) < 9999"
MIDDLE_COLUMNS = {
    "time": "TIMESTAMPTZ", "key": "VARCHAR", "name": "VARCHAR", "amount": "DECIMAL(18,4)",
}  # fmt: skip
DAY_COLUMNS = {"day": "VARCHAR", "name": "VARCHAR", "events": "BIGINT", "total": "DECIMAL(38,4)"}


def reconcile_flights(places: Places, tables: Tables) -> list[Line]:
    """Return lines of (what, expected, found), of the flights that were sent.

    The last record of a stream has no airport: it only ends the windows.
    """
    with given.connect() as database:
        for name in ("flights", "planes", "airlines"):
            rows = getattr(tables, name)[list(INPUT_COLUMNS[name])]
            database.register(name, pa.Table.from_pandas(rows, preserve_index=False))
        database.execute(EXPECTED_FLIGHTS, {"late": LATE_MINUTES})
        for topic, name, columns in (
            (queries.ENRICHED, "enriched", FLIGHT_COLUMNS),
            (queries.DAILY, "days", FLIGHT_DAY_COLUMNS),
        ):
            given.add_results(database, name, (r.value for r in read_all(places, topic)), columns)
        flights = count(database, "FROM flights")
        sent = sum(1 for each in read_all(places, queries.RAW) if each.key != CLOCK_KEY.encode())
        counted = count(database, "SELECT unnest(generate_series(1, flights)) FROM days")
        wrong = differing(database, "FROM expected_flights", FLIGHTS)
        wrong_days = differing(database, EXPECTED_FLIGHT_DAYS, "FROM days")
        return [
            (f"flights in {queries.RAW}", flights, sent),
            (f"flights in {queries.ENRICHED}", flights, count(database, FLIGHTS)),
            (f"flights in {queries.ENRICHED} that differ from DuckDB's", 0, wrong),
            (f"flights counted in {queries.DAILY}", flights, counted),
            (
                f"rows of {queries.DAILY}",
                count(database, EXPECTED_FLIGHT_DAYS),
                count(database, "FROM days"),
            ),
            (f"rows of {queries.DAILY} that differ from DuckDB's", 0, wrong_days),
        ]


def reconcile(places: Places, source: Source, reference: Files | None) -> list[Line]:
    """Return lines of (what, expected, found)."""
    with given.connect() as database:
        table = Given(database, source.fields)
        source.load(places, table)
        table.finish()
        if reference is not None:
            names = Given(database, REFERENCE_FIELDS, "reference")
            reference.load(places, names)
            names.finish()
        database.execute(NO_NAMES if reference is None else LAST_NAMES)
        for topic, name, columns in (
            (ENRICHED, "middle", MIDDLE_COLUMNS),
            (DAILY, "days", DAY_COLUMNS),
        ):
            given.add_results(database, name, (r.value for r in read_all(places, topic)), columns)
        database.execute(EXPECTED_MIDDLE)
        events = count(database, "FROM rows")
        counted = count(database, "SELECT unnest(generate_series(1, events)) FROM days")
        return [
            *source.lines(places, count(database, "FROM given"), count(database, "FROM bad")),
            (f"events in {ENRICHED}", events, count(database, MIDDLE)),
            (
                f"events in {ENRICHED} that differ from DuckDB's",
                0,
                differing(database, "FROM expected_middle", MIDDLE),
            ),
            (f"events counted in {DAILY}", events, counted),
            (f"rows of {DAILY}", count(database, EXPECTED_DAYS), count(database, "FROM days")),
            (
                f"rows of {DAILY} that differ from DuckDB's",
                0,
                differing(database, EXPECTED_DAYS, "FROM days"),
            ),
        ]
