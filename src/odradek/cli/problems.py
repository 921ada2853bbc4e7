"""Prints the problems that a command has found."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.output import styled
from odradek.operations.problems import Problem, Severity

SHOWN_MAX = 5
_COLOURS = {Severity.NOTE: "cyan", Severity.DEGRADED: "yellow", Severity.BROKEN: "red"}


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
