"""Counts authentications by listener, with the names of Apache Kafka's metrics (Selector's sensors)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum


class Outcome(Enum):
    """The outcome of an authentication; the value is the name of its metric."""

    SUCCESSFUL = "successful_authentication_total"
    FAILED = "failed_authentication_total"
    SUCCESSFUL_AGAIN = "successful_reauthentication_total"
    FAILED_AGAIN = "failed_reauthentication_total"
    EXPIRED = "expired_connections_killed_count"
    """A connection was closed, because its client did not authenticate again in time."""


class Authentications:
    """The counts of some listeners."""

    def __init__(self, listeners: Iterable[str]) -> None:
        self._counts = {each: dict.fromkeys(Outcome, 0) for each in listeners}

    def count(self, listener: str, outcome: Outcome) -> None:
        """Count an authentication on a listener."""
        self._counts[listener][outcome] += 1

    def of(self, outcome: Outcome) -> Iterator[tuple[str, int]]:
        """Yield each listener with the number of authentications that had this outcome."""
        for listener, counts in self._counts.items():
            yield listener, counts[outcome]
