"""Problems that were found, with what to do, as values and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a problem is."""

    NOTE = 0
    """Nothing is wrong, but something could be better."""
    DEGRADED = 1
    """Everything is served. But another failure, or a stranger, may change this."""
    BROKEN = 2
    """Clients get errors."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, what to do, and what is affected."""

    severity: Severity
    what: str
    advice: str
    affected: Sequence[str] = ()


def problems_json(problems: Sequence[Problem]) -> list[dict[str, object]]:
    """Return the problems as JSON objects."""
    return [
        {
            "severity": each.severity.name.lower(),
            "what": each.what,
            "to_do": each.advice,
            "affected": list(each.affected),
        }
        for each in problems
    ]
