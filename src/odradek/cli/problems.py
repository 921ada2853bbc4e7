"""Problems that a command has found, with what to do, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import click

from odradek.cli.output import styled

SHOWN_MAX = 5


class Severity(IntEnum):
    """How bad a problem is."""

    NOTE = 0
    """Nothing is wrong, but something could be better."""
    DEGRADED = 1
    """Everything is served. But another failure, or a stranger, may change this."""
    BROKEN = 2
    """Clients get errors."""


_COLOURS = {Severity.NOTE: "cyan", Severity.DEGRADED: "yellow", Severity.BROKEN: "red"}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, what to do, and what is affected."""

    severity: Severity
    what: str
    advice: str
    affected: Sequence[str] = ()


def print_problems(problems: Sequence[Problem]) -> None:
    """Print each problem, with a part of what is affected, and what to do."""
    for each in problems:
        mark = styled(each.severity.name.lower(), fg=_COLOURS[each.severity], bold=True)
        click.echo(f"\n  {mark}  {each.what}")
        for text in each.affected[:SHOWN_MAX]:
            click.echo(f"      {text}")
        if len(each.affected) > SHOWN_MAX:
            click.echo(f"      and {len(each.affected) - SHOWN_MAX} more")
        click.echo(f"    {styled('to do', bold=True)}  {each.advice}")


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
