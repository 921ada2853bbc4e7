"""Computes with DuckDB, from the changes that were given, the table that they make, and compares."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from examples.commitlog.own import SEPARATOR, Table
from odradek.pipelines.own import given
from odradek.pipelines.own.given import Given, count, differing
from odradek.pipelines.own.source import Source
from odradek.pipelines.places import Line, Places

EXPECTED = """
CREATE TABLE expected AS
SELECT row_key, content FROM (
    SELECT {key} AS row_key, CASE WHEN op = 'd' THEN NULL ELSE after::JSON::VARCHAR END AS content
    FROM rows
    QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY file_number DESC, line DESC) = 1
) WHERE content IS NOT NULL
"""
FOUND = "SELECT row_key, content::JSON::VARCHAR FROM found"
SCATTERED = "SELECT {key} FROM rows GROUP BY ALL HAVING count(DISTINCT file) > 1"


def reconcile(
    places: Places, source: Source, key_names: list[str], tables: Mapping[str, Table]
) -> list[Line]:
    """Return lines of (what, expected, found)."""
    with given.connect() as database:
        changes = Given(database, source.fields)
        source.load(places, changes)
        changes.finish()
        key = f"concat_ws({given.literal(SEPARATOR)}, {', '.join(key_names)})"
        database.execute(EXPECTED.format(key=key))
        lines = source.lines(places, count(database, "FROM given"), count(database, "FROM bad"))
        if not source.keeps_order:
            scattered = count(database, SCATTERED.format(key=key))
            lines.append(("keys with changes in several partitions, in no order", 0, scattered))
        rows = count(database, "FROM expected")
        for name, table in tables.items():
            found = table.rows()
            database.register(
                "found",
                pa.table(
                    {
                        "row_key": pa.array([each for each, _ in found], pa.string()),
                        "content": pa.array([each for _, each in found], pa.string()),
                    }
                ),
            )
            lines += [
                (f"rows of the {name}", rows, len(found)),
                (
                    f"rows of the {name} that differ from DuckDB's",
                    0,
                    differing(database, "FROM expected", FOUND),
                ),
            ]
            database.unregister("found")
    return lines
