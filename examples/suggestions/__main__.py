"""`python -m examples.suggestions`: see README.md."""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.suggestions import own, queries
from examples.suggestions.queries import PAIRS, RATINGS, SUGGESTION, SUGGESTIONS
from examples.suggestions.ratings import ratings, records
from odradek.pipelines.arguments import at_least_one, number
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.command import command
from odradek.pipelines.own import options as own_options
from odradek.pipelines.picture import Bars, draw
from odradek.pipelines.places import Line, Places

SHOWN = 5
DRAWN = 30


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send ratings, find pairs in real time, run the overnight job twice, and reconcile."""
    from examples.suggestions.check import reconcile_ratings

    if own_options.is_given(options):
        return own.run(console, places, options)
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
    return reconcile_ratings(places, rated)


def _print(console: Console, places: Places) -> None:
    table = Table("film", "liked by the same users", "users")
    together = queries.liked_together(places).orderBy(sf.desc("users"), "film", "other")
    top = together.limit(DRAWN).collect()
    for row in top[:SHOWN]:
        table.add_row(*map(str, row))
    console.print(table)
    bars = {f"{row.film} and {row.other}": float(row.users) for row in top if row.film < row.other}
    panels = [Bars("Users that liked both films", bars)]
    draw(console, places, "suggestions", "Films that are liked together", panels)
    table = Table("user", "suggested films, with the rating that ALS expects")
    suggested = places.read(SUGGESTIONS, SUGGESTION).where(sf.col("user") < SHOWN)
    by_user: dict[int, list[str]] = {}
    for row in suggested.orderBy("user", "rank").collect():
        by_user.setdefault(row.user, []).append(f"{row.film} ({row.score:.1f})")
    for user, films in by_user.items():
        table.add_row(str(user), ", ".join(films))
    console.print(table)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this pipeline."""
    own_options.add_arguments(parser, own.FIELDS)
    parser.add_argument(
        "--liked", type=number, default=3.0, help="the lowest rating of a film that a user likes"
    )
    parser.add_argument(
        "--remember",
        type=at_least_one,
        default=10,
        help="with how many films that were liked before a film is paired, in own data",
    )


def check(options: argparse.Namespace) -> None:
    """Check the options before anything is started.

    Raises:
        ValueError: an option is wrong.
    """
    own_options.check(options, own.FIELDS, own.MOVIELENS)


continues = own_options.is_given

if __name__ == "__main__":
    sys.exit(command(Pipeline("suggestions", run, add_arguments, check, True, continues)))
