"""Prints steps with progress bars and times, a table, and a summary to the user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from odradek.demo.reconciliation import Report, Row


class Step:
    """A running step. `advance` moves its progress bar, `say` changes the text next to it."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self.detail = ""

    def of(self, total: int) -> None:
        """Set the total amount."""
        self._progress.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Add to the completed amount."""
        self._progress.advance(self._task, count)

    def reached(self, count: int) -> None:
        """Set the completed amount."""
        self._progress.update(self._task, completed=count)

    def say(self, detail: str) -> None:
        """Set the text. The last text stays visible."""
        self.detail = detail
        self._progress.update(self._task, detail=detail)


class Screen:
    """Writes to a terminal, or plain text if the output is no terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step while it runs, and then a row with its duration."""
        began = time.monotonic()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=30),
            TextColumn("[dim]{task.fields[detail]}"),
        )
        live = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )
        with live as progress:
            step = Step(progress, progress.add_task(title, total=None, detail=""))
            try:
                yield step
            except BaseException:
                self.say(f"[red]✗[/] {title:<26} [dim]{step.detail}[/]")
                raise
        took = time.monotonic() - began
        self.say(f"[green]✓[/] {title:<26} {step.detail} [dim]({took:.1f} s)[/]")

    def say(self, text: str = "") -> None:
        """Print a row without wrapping."""
        self.console.print(text, soft_wrap=True)

    def report(self, report: Report) -> None:
        """Print the reconciliation."""
        table = Table(title="Where every record is", title_justify="left", title_style="bold")
        for name, justify in (
            ("", "left"),
            ("records", "right"),
            ("must be", "left"),
            ("", "left"),
        ):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for group, lines in report.groups.items():
            table.add_row(Text(group, style="bold"))
            for row in lines:
                table.add_row(f"  {row.name}", f"{row.count:,}", row.check, _verdict(row))
            table.add_section()
        self.console.print()
        self.console.print(table)

    def panel(self, text: str, style: str) -> None:
        """Print the summary."""
        self.console.print(Panel.fit(text, border_style=style))


def _verdict(row: Row) -> Text:
    if row.good is None:
        return Text("")
    return Text("✓", style="green") if row.good else Text("✗ differs", style="bold red")
