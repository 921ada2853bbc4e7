"""Output of commands: tables and JSON to stdout, notes and errors to stderr.

The package rich formats tables. If stdout is not a terminal, a table may have any width, so that
`grep` sees complete lines.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from odradek.client.errors import ClientError

PIPE_WIDTH = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `right` aligns text on the right. `style` is a style of rich."""

    title: str
    right: bool = False
    style: str = ""
    wrap: bool = True


def number(title: str) -> Column:
    """A column of numbers."""
    return Column(title, right=True, wrap=False)


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], *, indent: int = 0
) -> None:
    """Print rows under titles; None is shown as `-`."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=not column.wrap,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    console = Console(
        file=sys.stdout, width=None if on_terminal else PIPE_WIDTH, highlight=False, markup=False
    )
    with console.capture() as capture:
        console.print(Padding(table, (0, 0, 0, indent)) if indent else table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def print_json(value: Any) -> None:
    """Print a JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one per line, aligned."""
    pairs = [(name, "-" if value is None else str(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{styled(name.ljust(width), bold=True)}  {value}")


def note(text: str) -> None:
    """Print a note to stderr."""
    click.echo(text, err=True)


def note_none(things: str, in_all: int) -> None:
    """Print that a list is empty: there are no items, or none matches the filters."""
    note(
        f"No {things} match the filters ({in_all} in all)." if in_all else f"There are no {things}."
    )


def warn(text: str) -> None:
    """Print a warning to stderr."""
    click.echo(styled("Warning: ", fg="yellow", bold=True) + text, err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal, unless `--yes` is given. "No" exits with code 1."""
    if yes or not sys.stdin.isatty() or click.confirm(question, err=True):
        return
    note("Nothing was done.")
    click.get_current_context().exit(1)


def print_error(error: ClientError) -> None:
    """Print an error and its advice."""
    click.echo(styled("Error: ", fg="red", bold=True) + str(error), err=True)
    if error.advice:
        click.echo(styled("Hint:  ", fg="cyan", bold=True) + error.advice, err=True)


def end_with_errors(errors: Sequence[ClientError]) -> None:
    """Print errors, if any, and then exit with code 1."""
    seen = set()
    for error in errors:
        if str(error) not in seen:
            seen.add(str(error))
            print_error(error)
    if errors:
        click.get_current_context().exit(1)


def styled(text: str, **style: Any) -> str:
    """Style text, unless NO_COLOR is set; `click.echo` removes styles if stdout is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)
