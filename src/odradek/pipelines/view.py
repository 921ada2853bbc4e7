"""Shows on a terminal what a pipeline does, while it does it.

The view is at the end of the output and changes twice a second. What the pipeline prints is above it.
When the run ends, the view is replaced by a line for each query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from odradek.pipelines.reports import Report

REFRESHES_PER_SECOND = 2
BAR_WIDTH = 16
SENT_WIDTH = 30


@dataclass(slots=True)
class _Query:
    """What is known of a query."""

    last: Report
    rows: int = 0
    batches: int = 0
    duration_ms: int = 0
    at_s: float = 0.0

    def add(self, report: Report, now_s: float) -> None:
        self.last = report
        self.rows += report.rows
        self.batches += 1
        self.duration_ms += report.duration_ms
        self.at_s = now_s


class View:
    """The state of a run, as it is shown. Any thread may call the methods."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began_s = clock()
        self._phase = ""
        self._phase_s = self._began_s
        self._sent = 0
        self._total: int | None = None
        self._queries: dict[str, _Query] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the view, until the end of the `with` statement."""
        with Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        ):
            yield
        for each in self._queries.values():
            self._console.print(_summary(each), highlight=False, soft_wrap=True)

    def phase(self, text: str) -> None:
        """Say what is done now."""
        self._phase, self._phase_s = text, self._clock()

    def sent(self, count: int) -> None:
        """Note how many rows are in the pipeline's topic."""
        self._sent = count

    def total(self, count: int) -> None:
        """Note how many rows there are to send, at most."""
        self._total = count

    def batch(self, report: Report) -> None:
        """Note a completed micro-batch."""
        query = self._queries.setdefault(report.query_id, _Query(report))
        query.add(report, self._clock())

    def render(self) -> RenderableType:
        """Return the view."""
        now_s = self._clock()
        waited = now_s - self._phase_s
        parts: list[RenderableType] = [Text(f"{self._phase} ({waited:.0f} s)", style="dim")]
        if self._sent or self._total:
            parts.append(self._sent_row())
        if self._queries:
            parts.append(self._table(now_s))
        return Group(*parts)

    def _sent_row(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        total = max(self._total or 0, self._sent)
        known = f"{self._sent:,} of {total:,}" if self._total else f"{self._sent:,}"
        bar = ProgressBar(total or None, self._sent, width=SENT_WIDTH, pulse=not self._total)
        row.add_row("rows sent", bar, known)
        return row

    def _table(self, now_s: float) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in (
            "query",
            "done",
            "",
            "rows",
            "rows/s",
            "lag",
            "watermark",
            "state",
            "last batch",
        ):
            numeric = name in {"rows", "rows/s", "lag", "state"}
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
        for each in list(self._queries.values()):
            last = each.last
            lag = last.lag or 0
            ago = now_s - each.at_s
            table.add_row(
                last.query,
                ProgressBar(max(each.rows + lag, 1), each.rows, width=BAR_WIDTH),
                f"{each.rows / max(each.rows + lag, 1):.0%}",
                f"{each.rows:,}",
                f"{last.rows_per_second:,.0f}",
                "-" if last.lag is None else f"{last.lag:,}",
                "-" if last.watermark is None else last.watermark[:19].replace("T", " "),
                f"{last.state_rows:,}",
                f"{_clock_of(last)} ({last.duration_ms / 1000:.1f} s, {ago:.0f} s ago)",
            )
        return table


def _clock_of(report: Report) -> str:
    return datetime.fromisoformat(report.at).strftime("%H:%M:%S")


def _summary(query: _Query) -> str:
    seconds = query.duration_ms / 1000
    rate = query.rows / seconds if seconds else 0.0
    return (
        f"{query.last.query:<20}  {query.batches} micro-batches  {query.rows:,} rows  "
        f"{rate:,.0f} rows/s  {seconds:.1f} s"
    )
