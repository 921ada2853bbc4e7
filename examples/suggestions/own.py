"""The same for own ratings, of any size: a user's film is paired with the films liked just before."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from rich.console import Console
from rich.table import Table

from odradek.pipelines.own import options as own
from odradek.pipelines.own import stream
from odradek.pipelines.own.fields import INTEGER, NUMBER, Field
from odradek.pipelines.own.source import Files, Source
from odradek.pipelines.own.topic import Topic
from odradek.pipelines.picture import Bars, draw
from odradek.pipelines.places import Line, Places, as_json

RATINGS, PAIRS, SUGGESTIONS = "ratings", "ratings.pairs", "suggestions"
FIELDS = (
    Field("user", INTEGER, ("userId", "user_id", "user", "UserID")),
    Field("film", INTEGER, ("movieId", "movie_id", "item_id", "film", "MovieID")),
    Field("rating", NUMBER, ("rating", "Rating", "score")),
)
MOVIELENS = ("UserID", "MovieID", "Rating", "Timestamp")
"""The columns of ratings.dat."""
PAIR = "user INT, film INT, other INT"
SUGGESTION = "user INT, rank INT, film INT, score DOUBLE"
PER_BATCH = 50_000
PER_USER = 5
SEED = 7
SHOWN, DRAWN = 5, 15


def pairs(ratings: DataFrame, liked_from: float, remember: int) -> DataFrame:
    """Return pairs of films that a user liked: each with up to `remember` films liked before it.

    The state of a user is the list of the films that the user liked, in the order of the topic.
    """

    def found(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        liked: list[int] = json.loads(state.get[0]) if state.exists else []
        known = set(liked)
        rows = []
        for film in pd.concat(frames).sort_values(["partition", "offset"])["film"].tolist():
            if film not in known:
                rows += [(key[0], film, other) for other in liked[-remember:]]
                liked.append(film)
                known.add(film)
        state.update((json.dumps(liked),))
        yield pd.DataFrame(rows, columns=["user", "film", "other"]).astype("int32")

    liked_ones = ratings.where(sf.col("rating") >= liked_from)
    return liked_ones.groupBy("user").applyInPandasWithState(
        found, PAIR, "liked STRING", "append", GroupStateTimeout.NoTimeout
    )


def suggest(places: Places, ratings: DataFrame, night: int) -> None:
    """Compute suggestions for all users from all ratings, and write them to a topic once."""
    rated = ratings.select("user", "film", "rating").cache()
    model = ALS(
        rank=8,
        maxIter=5,
        regParam=0.1,
        userCol="user",
        itemCol="film",
        ratingCol="rating",
        coldStartStrategy="drop",
        seed=SEED,
    ).fit(rated)
    by_user = rated.groupBy("user").agg(sf.countDistinct("film").alias("films"))
    ((most,),) = by_user.agg(sf.max("films")).collect()
    best = model.recommendForAllUsers(PER_USER + most)
    films = best.select("user", sf.explode("recommendations").alias("best"))
    unknown = films.select("user", "best.film", sf.col("best.rating").alias("score")).join(
        rated, ["user", "film"], "left_anti"
    )
    order = Window.partitionBy("user").orderBy(sf.desc("score"), "film")
    chosen = (
        unknown.withColumn("rank", sf.row_number().over(order))
        .where(sf.col("rank") <= PER_USER)
        .select("user", "rank", "film", sf.col("score").cast("double").alias("score"))
    )
    writer = as_json(chosen, "user").write.format("odradek").mode("append")
    writer.options(
        **places.options,
        topic=SUGGESTIONS,
        txnAppId=places.checkpoint(SUGGESTIONS),
        txnVersion=night,
    ).save()
    rated.unpersist()


def start(
    places: Places, source: Source, options: argparse.Namespace, *, to_the_end: bool
) -> list[StreamingQuery]:
    """Start to find pairs."""
    found = pairs(source.stream(places, PER_BATCH, group=PAIRS), options.liked, options.remember)
    return [places.write(found, PAIRS, "film", to_the_end=to_the_end)]


def run(console: Console, places: Places, options: argparse.Namespace) -> list[Line]:
    """Send ratings, find pairs in real time, run the overnight job, and reconcile."""
    from examples.suggestions.check import reconcile

    fields = own.columns_of(options, FIELDS)
    source: Source
    if options.topic:
        source = Topic(options.topic, fields, own.following(options))
    else:
        said = own.wanted(options, MOVIELENS)
        source = Files(RATINGS, fields, ["user"], options.input, said)
    places.create(PAIRS, SUGGESTIONS)
    source.begin(console, places)
    begin = partial(start, places, source, options)
    source.follow(console, places, partial(begin, to_the_end=False))
    begin(to_the_end=True)
    console.print("The pairs are found; the overnight job computes suggestions")
    suggest(places, stream.rows(source.read(places), fields), night=1)
    _print(console, places)
    return reconcile(places, source, options.liked, options.remember)


def _print(console: Console, places: Places) -> None:
    table = Table("film", "liked by the same users", "users")
    found = places.read(PAIRS, PAIR)
    both = (sf.least("film", "other").alias("one"), sf.greatest("film", "other").alias("two"))
    most = found.groupBy(*both).agg(sf.count("*").alias("users"))
    top = most.orderBy(sf.desc("users"), "one", "two").limit(DRAWN).collect()
    for row in top[:SHOWN]:
        table.add_row(*map(str, row))
    console.print(table)
    bars = {f"{row.one} and {row.two}": float(row.users) for row in top}
    panels = [Bars("Users that liked both films", bars)]
    draw(console, places, "suggestions", "Films that are liked together", panels)
