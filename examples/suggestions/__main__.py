"""`python -m examples.suggestions`: see README.md."""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.suggestions import queries
from examples.suggestions.queries import PAIRS, RATINGS, SUGGESTION, SUGGESTIONS
from examples.suggestions.ratings import ratings, records
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.places import Line, Places

SHOWN = 5


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send ratings, find pairs in real time, run the overnight job twice, and reconcile."""
    del options
    rated = ratings()
    places.create(RATINGS, PAIRS, SUGGESTIONS)
    middle = len(rated) // 2
    for part in (rated[:middle], rated[middle:]):
        places.send(RATINGS, records(part))
        pairs = queries.pairs(places.stream(RATINGS, queries.RATING))
        places.write(pairs, PAIRS, "film")
        console.print(f"{len(part)} ratings sent to {RATINGS}, and their pairs found")
    for _ in ("the job", "the job again, as after a failure"):
        queries.suggest(places, night=1)
    _print(console, places)
    return queries.reconcile(places, len(rated))


def _print(console: Console, places: Places) -> None:
    table = Table("film", "liked by the same users", "users")
    together = queries.liked_together(places).orderBy(sf.desc("users"), "film", "other")
    for row in together.limit(SHOWN).collect():
        table.add_row(*map(str, row))
    console.print(table)
    table = Table("user", "suggested films, with the rating that ALS expects")
    suggested = places.read(SUGGESTIONS, SUGGESTION).where(sf.col("user") < SHOWN)
    by_user: dict[int, list[str]] = {}
    for row in suggested.orderBy("user", "rank").collect():
        by_user.setdefault(row.user, []).append(f"{row.film} ({row.score:.1f})")
    for user, films in by_user.items():
        table.add_row(str(user), ", ".join(films))
    console.print(table)


if __name__ == "__main__":
    sys.exit(command(Pipeline("suggestions", run, is_example=True)))
