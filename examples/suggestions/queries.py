"""The streaming query that finds pairs of films, and the batch job. `check.py` checks their results.

ratings ──┬─ pairs of films that a user liked, at once ── ratings.pairs
          └─ overnight: MLlib's ALS ── suggestions
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from odradek.pipelines.places import Places, as_json

RATINGS, PAIRS, SUGGESTIONS = "ratings", "ratings.pairs", "suggestions"
RATING = "user INT, film INT, rating DOUBLE"
PAIR = "user INT, film INT, other INT"
SUGGESTION = "user INT, rank INT, film INT, score DOUBLE"
LIKED = 3.0
"""The lowest rating of a film that a user likes."""
SUGGESTIONS_PER_USER = 5
SEED = 7


def pairs(ratings: DataFrame) -> DataFrame:
    """Return the pairs of films that a user liked, each as soon as the second one is rated.

    The state of a user is the list of the films that the user liked.
    """

    def found(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        liked: list[int] = json.loads(state.get[0]) if state.exists else []
        rows = []
        for frame in frames:
            for film in frame["film"].tolist():
                if film not in liked:
                    rows += [(key[0], min(film, other), max(film, other)) for other in liked]
                    liked.append(film)
        state.update((json.dumps(liked),))
        yield pd.DataFrame(rows, columns=["user", "film", "other"]).astype("int32")

    liked_ones = ratings.where(sf.col("rating") >= LIKED)
    return liked_ones.groupBy("user").applyInPandasWithState(
        found, PAIR, "liked STRING", "append", GroupStateTimeout.NoTimeout
    )


def liked_together(places: Places) -> DataFrame:
    """Return for each film the other films that the same users liked, with their number."""
    found = places.read(PAIRS, PAIR)
    turned = found.select("user", sf.col("other").alias("film"), sf.col("film").alias("other"))
    return found.unionByName(turned).groupBy("film", "other").agg(sf.count("*").alias("users"))


def suggest(places: Places, night: int) -> None:
    """Compute suggestions for all users from all ratings, and write them to a topic once.

    `night` numbers the runs of the job. A run that has been written is not written again.
    """
    ratings = places.read(RATINGS, RATING).cache()
    model = ALS(
        rank=8,
        maxIter=5,
        regParam=0.1,
        userCol="user",
        itemCol="film",
        ratingCol="rating",
        coldStartStrategy="drop",
        seed=SEED,
    ).fit(ratings)
    users, films = ratings.select("user").distinct(), ratings.select("film").distinct()
    unknown = users.crossJoin(films).join(ratings, ["user", "film"], "left_anti")
    order = Window.partitionBy("user").orderBy(sf.desc("prediction"), "film")
    best = (
        model.transform(unknown)
        .withColumn("rank", sf.row_number().over(order))
        .where(sf.col("rank") <= SUGGESTIONS_PER_USER)
        .select("user", "rank", "film", sf.col("prediction").cast("double").alias("score"))
    )
    writer = as_json(best, "user").write.format("odradek").mode("append")
    writer.options(
        **places.options,
        topic=SUGGESTIONS,
        txnAppId=places.checkpoint(SUGGESTIONS),
        txnVersion=night,
    ).save()
