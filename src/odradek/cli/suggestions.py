"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar name; empty if none is similar."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def suggest_topics(cluster: Cluster, errors: Iterable[object]) -> None:
    """Add a similar topic name to the advice of each error about a missing topic."""
    from odradek.client.errors import ClientError, NoSuchTopicError

    missing = [e for e in errors if isinstance(e, NoSuchTopicError) and e.partition is None]
    if not missing:
        return
    try:
        known = cluster.refresh().topics
    except ClientError:
        return  # the error is reported even without a suggestion
    for error in missing:
        error.advice = f"{did_you_mean(error.topic, known)} {error.advice}".lstrip()
