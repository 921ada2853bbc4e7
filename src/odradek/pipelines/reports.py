"""What is known of a micro-batch, from Spark's progress reports, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.spark import query_progress


@dataclass(frozen=True, slots=True)
class Report:
    """A completed micro-batch of a query."""

    query_id: str
    query: str
    """The name of the query, or the first letters of its id."""
    batch: int
    at: str
    """The time at which the micro-batch began, as ISO text."""
    rows: int
    rows_per_second: float
    duration_ms: int
    lag: int | None
    watermark: str | None = None
    """The time that the query's event times have passed, as ISO text."""
    state_rows: int = 0
    """The rows in the state of the query."""

    def line(self) -> str:
        """Return the report as a line of text."""
        lag = "-" if self.lag is None else f"{self.lag:,}"
        return (
            f"{self.at[11:19]}  {self.query:<20}  batch {self.batch:<4}  {self.rows:>9,} rows  "
            f"{self.rows_per_second:>9,.0f} rows/s  lag {lag}  {self.duration_ms / 1000:.2f} s"
        )


def report_of(progress: Mapping[str, Any]) -> Report:
    """Return the report of a `StreamingQueryProgress`, given as JSON."""
    return Report(
        query_id=progress["id"],
        query=query_progress.name(progress),
        batch=progress["batchId"],
        at=progress["timestamp"],
        rows=query_progress.rows(progress),
        rows_per_second=query_progress.rate(progress),
        duration_ms=query_progress.duration_ms(progress),
        lag=query_progress.lag(progress),
        watermark=query_progress.watermark(progress),
        state_rows=query_progress.state(progress)[0],
    )
