"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.client.errors import ClientError


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar name, or an empty text if no name is similar."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def suggest_topics(cluster: Cluster, errors: Sequence[ClientError]) -> list[ClientError]:
    """Return the errors. If a topic is missing, the advice of the error names a similar topic."""
    from odradek.client.errors import ClientError, NoSuchTopicError

    missing = [e for e in errors if isinstance(e, NoSuchTopicError) and e.partition is None]
    if not missing:
        return list(errors)
    try:
        known = cluster.refresh().topics
    except ClientError:
        return list(errors)  # the errors are reported without a suggestion
    suggested: dict[ClientError, ClientError] = {}
    for error in missing:
        advice = f"{did_you_mean(error.topic, known)} {error.advice}".lstrip()
        suggested[error] = NoSuchTopicError(error.topic, None, advice)
    return [suggested.get(error, error) for error in errors]
