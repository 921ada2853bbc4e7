"""Computes with DuckDB, from the input, what the stages of own data must have, and compares."""

from __future__ import annotations

from examples.stages.own import DAILY, ENRICHED, REFERENCE_FIELDS
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
MIDDLE = "SELECT * FROM middle WHERE year(time) < 9999"
MIDDLE_COLUMNS = {
    "time": "TIMESTAMPTZ", "key": "VARCHAR", "name": "VARCHAR", "amount": "DECIMAL(18,4)",
}  # fmt: skip
DAY_COLUMNS = {"day": "VARCHAR", "name": "VARCHAR", "events": "BIGINT", "total": "DECIMAL(38,4)"}


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
