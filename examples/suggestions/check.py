"""Computes with DuckDB, from the ratings that were given, the pairs, and checks the suggestions.

The model of MLlib cannot be computed again. So of the suggestions their number is checked, and that
they are films that were rated, though not by their user.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from duckdb import DuckDBPyConnection

from examples.suggestions import queries
from examples.suggestions.own import PAIRS, PER_USER, RATINGS, SUGGESTIONS
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
ALL_PAIRS = """
CREATE TABLE expected_pairs AS
WITH liked AS (SELECT DISTINCT "user", film FROM rows WHERE rating >= $liked)
SELECT a."user", a.film, b.film AS other
FROM liked a JOIN liked b ON a."user" = b."user" AND a.film < b.film
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


def reconcile_ratings(places: Places, ratings: Sequence[tuple[int, int, float]]) -> list[Line]:
    """Return lines of (what, expected, found), of ratings with (user, film, rating)."""
    users, films, rated = zip(*ratings, strict=True)
    names = ("user", "film", "rating")
    with given.connect() as database:
        database.register("rows", pa.table([*map(pa.array, (users, films, rated))], names))
        for topic, name, columns in (
            (PAIRS, "pairs", PAIR),
            (SUGGESTIONS, "suggestions", SUGGESTION),
        ):
            given.add_results(database, name, (r.value for r in read_all(places, topic)), columns)
        database.execute(ALL_PAIRS, {"liked": queries.LIKED})
        users_count = count(database, 'SELECT DISTINCT "user" FROM rows')
        return [
            (f"ratings in {RATINGS}", len(ratings), sum(1 for _ in read_all(places, RATINGS))),
            *_compare(database),
            (
                "suggestions",
                queries.SUGGESTIONS_PER_USER * users_count,
                count(database, "FROM suggestions"),
            ),
            (
                "users with suggestions",
                users_count,
                count(database, 'SELECT DISTINCT "user" FROM suggestions'),
            ),
            *_unsuitable(database),
        ]


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
            *_compare(database),
            ("suggestions", wanted, count(database, "FROM suggestions")),
            *_unsuitable(database),
        ]


def _compare(database: DuckDBPyConnection) -> list[Line]:
    """Compare the pairs."""
    wrong = differing(database, "FROM expected_pairs", "FROM pairs")
    return [
        ("pairs of films", count(database, "FROM expected_pairs"), count(database, "FROM pairs")),
        ("pairs that differ from DuckDB's", 0, wrong),
    ]


def _unsuitable(database: DuckDBPyConnection) -> list[Line]:
    """Count films that must not be suggested."""
    return [
        ("suggested films that the user has rated", 0, count(database, RATED)),
        ("suggested films that nobody has rated", 0, count(database, UNKNOWN)),
    ]
