"""Computes with DuckDB, from the input, what the results must be, and compares them.

No function of the stream is used.
"""

from __future__ import annotations

from deltalake import DeltaTable
from duckdb import DuckDBPyConnection

from examples.activity import queries
from examples.activity.queries import COUNTS, SESSIONS, Settings
from odradek.pipelines.own import given
from odradek.pipelines.own.given import Given, count, differing, number
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.own.source import Source
from odradek.pipelines.places import Line, Places

EXPECTED_SESSIONS = """
WITH marked AS (
    SELECT *, coalesce(time - lag(time) OVER (PARTITION BY visitor ORDER BY time)
        > to_seconds($pause), false) AS is_new
    FROM rows
), numbered AS (
    SELECT *, count_if(is_new) OVER (PARTITION BY visitor ORDER BY time) AS number FROM marked
)
SELECT visitor, min(time) AS began, max(time) + to_seconds($pause) AS ended,
    count(*) AS actions, count_if(action = $page) AS pages
FROM numbered GROUP BY visitor, number
"""
EXPECTED_COUNTS = """
SELECT time_bucket(INTERVAL 1 HOUR, time) AS hour, action, count(*) AS actions
FROM rows GROUP BY ALL
"""
IN_TABLE = "SELECT visitor, action, time, section, page FROM loaded"
GIVEN = "SELECT visitor, action, time, section, page FROM rows"
SESSION = {
    "visitor": "VARCHAR",
    "began": "TIMESTAMPTZ",
    "ended": "TIMESTAMPTZ",
    "actions": "BIGINT",
    "pages": "BIGINT",
}
COUNT = {"hour": "TIMESTAMPTZ", "action": "VARCHAR", "actions": "BIGINT"}


def reconcile(places: Places, source: Source, settings: Settings) -> list[Line]:
    """Return lines of (what, expected, found)."""
    with given.connect() as database:
        table = Given(database, source.fields)
        source.load(places, table)
        table.finish()
        lines = source.lines(places, count(database, "FROM given"), count(database, "FROM bad"))
        for topic, name, columns in ((SESSIONS, "sessions", SESSION), (COUNTS, "counts", COUNT)):
            values = (each.value for each in read_all(places, topic))
            given.add_results(database, name, values, columns)
        files = DeltaTable(queries.table_path(places)).file_uris()
        database.execute(f"CREATE VIEW loaded AS FROM read_parquet({_list(files)})")
        variables = {"pause": settings.pause_s, "page": settings.page}
        database.execute(f"CREATE TABLE expected_sessions AS {EXPECTED_SESSIONS}", variables)
        actions = count(database, "FROM rows")
        lines += [
            ("actions in sessions", actions, _sum(database, "sessions")),
            (
                "sessions",
                count(database, "FROM expected_sessions"),
                count(database, "FROM sessions"),
            ),
            (
                "sessions that differ from DuckDB's",
                0,
                differing(database, "FROM expected_sessions", "FROM sessions"),
            ),
            ("actions in hours", actions, _sum(database, "counts")),
            (
                "hours that differ from DuckDB's",
                0,
                differing(database, EXPECTED_COUNTS, "FROM counts"),
            ),
            ("actions in the table", actions, count(database, IN_TABLE)),
            (
                "actions in the table that differ from the input",
                0,
                differing(database, GIVEN, IN_TABLE),
            ),
        ]
        for stage in settings.stages:
            where = f"WHERE action = {given.literal(stage)}"
            expected = count(database, f"FROM rows {where}")
            lines.append(
                (f"{stage}, in the funnel", expected, count(database, f"FROM loaded {where}"))
            )
    return lines


def _sum(database: DuckDBPyConnection, table: str) -> int:
    return number(database, f"SELECT coalesce(sum(actions), 0) FROM {table}")


def _list(files: list[str]) -> str:
    return "[{}]".format(", ".join(given.literal(each) for each in files))
