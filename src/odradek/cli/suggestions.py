"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the closest of the names; empty where none is close."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def suggest_topics(cluster: Cluster, errors: Iterable[object]) -> None:
    """Add to the advice of each error about a missing topic the one that was probably meant."""
    from odradek.client.errors import ClientError, NoSuchTopicError

    missing = [e for e in errors if isinstance(e, NoSuchTopicError) and e.partition is None]
    if not missing:
        return
    try:
        known = cluster.refresh().topics
    except ClientError:
        return  # what is missing is told anyway
    for error in missing:
        error.advice = f"{did_you_mean(error.topic, known)} {error.advice}".lstrip()
