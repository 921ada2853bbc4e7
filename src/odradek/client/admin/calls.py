"""What the parts of `Admin` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, SomeFailedError

K = TypeVar("K")
V = TypeVar("V")


class Calls:
    """Calls of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster


def all_of(what: str, found: Mapping[K, V | ClientError]) -> dict[K, V]:
    """Return the results by item.

    Raises:
        SomeFailedError: there are errors.
    """
    results = {key: each for key, each in found.items() if not isinstance(each, ClientError)}
    errors = {key: each for key, each in found.items() if isinstance(each, ClientError)}
    if errors:
        raise SomeFailedError(what, results, errors)
    return results


def check_all(what: str, found: Mapping[K, ClientError | None]) -> None:
    """Raise a SomeFailedError if there are errors."""
    all_of(what, found)


def one_of(found: Mapping[K, V | ClientError]) -> V:
    """Return the only result, or raise its error."""
    (result,) = found.values()
    if isinstance(result, ClientError):
        raise result
    return result
