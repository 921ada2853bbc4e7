"""Computes with DuckDB, from the ratings that were given, the pairs, and checks the suggestions.

The model of MLlib cannot be computed again. So of the suggestions their number is checked, and that
they are films that were rated, though not by their user.
"""

from __future__ import annotations

from examples.suggestions.own import PAIRS, PER_USER, SUGGESTIONS
from odradek.pipelines.own import given
from odradek.pipelines.own.given import Given, count, differing, number
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.own.source import Source
from odradek.pipelines.places import Line, Places

EXPECTED_PAIRS = """
CREATE TABLE expected_pairs AS
WITH liked AS (
    SELECT "user", film, min((file_number, line)) AS seen
    FROM rows WHERE rating >= $liked GROUP BY ALL
), numbered AS (
    SELECT "user", film, row_number() OVER (PARTITION BY "user" ORDER BY seen) AS number FROM liked
)
SELECT a."user", a.film, b.film AS other
FROM numbered a JOIN numbered b
    ON a."user" = b."user" AND b.number BETWEEN a.number - $remember AND a.number - 1
"""
WANTED = """
SELECT coalesce(sum(least($most, films - rated)), 0)
FROM (SELECT count(DISTINCT film) AS rated FROM rows GROUP BY "user"),
    (SELECT count(DISTINCT film) AS films FROM rows)
"""
RATED = 'FROM suggestions JOIN (SELECT DISTINCT "user", film FROM rows) USING ("user", film)'
UNKNOWN = "FROM suggestions WHERE film NOT IN (SELECT film FROM rows)"
SCATTERED = 'SELECT "user" FROM rows GROUP BY ALL HAVING count(DISTINCT file) > 1'
PAIR = {"user": "INT", "film": "INT", "other": "INT"}
SUGGESTION = {"user": "INT", "rank": "INT", "film": "INT", "score": "DOUBLE"}


def reconcile(places: Places, source: Source, liked: float, remember: int) -> list[Line]:
    """Return lines of (what, expected, found)."""
    with given.connect() as database:
        table = Given(database, source.fields)
        source.load(places, table)
        table.finish()
        for topic, name, columns in (
            (PAIRS, "pairs", PAIR),
            (SUGGESTIONS, "suggestions", SUGGESTION),
        ):
            given.add_results(database, name, (r.value for r in read_all(places, topic)), columns)
        database.execute(EXPECTED_PAIRS, {"liked": liked, "remember": remember})
        wanted = number(database, WANTED, {"most": PER_USER})
        lines = source.lines(places, count(database, "FROM given"), count(database, "FROM bad"))
        if not source.keeps_order:
            scattered = count(database, SCATTERED)
            lines.append(("users with ratings in several partitions, in no order", 0, scattered))
        return [
            *lines,
            (
                "pairs of films",
                count(database, "FROM expected_pairs"),
                count(database, "FROM pairs"),
            ),
            (
                "pairs that differ from DuckDB's",
                0,
                differing(database, "FROM expected_pairs", "FROM pairs"),
            ),
            ("suggestions", wanted, count(database, "FROM suggestions")),
            ("suggested films that the user has rated", 0, count(database, RATED)),
            ("suggested films that nobody has rated", 0, count(database, UNKNOWN)),
        ]
