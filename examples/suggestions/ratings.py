"""Reads ratings of films by users of MovieLens, a sample of which PySpark contains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyspark

FILE = Path(pyspark.__file__).parent / "data" / "mllib" / "als" / "sample_movielens_ratings.txt"
"""Lines of user::film::rating::time. 30 users have rated 100 films; the times are all the same."""


def ratings() -> list[tuple[int, int, float]]:
    """Return (user, film, rating)."""
    lines = FILE.read_text(encoding="utf-8").split()
    fields = (line.split("::") for line in lines)
    return [(int(user), int(film), float(rating)) for user, film, rating, _ in fields]


def records(rated: list[tuple[int, int, float]]) -> Iterator[tuple[str, str]]:
    """Yield a record for each rating, with the user as key."""
    for user, film, rating in rated:
        yield str(user), json.dumps({"user": user, "film": film, "rating": rating})
