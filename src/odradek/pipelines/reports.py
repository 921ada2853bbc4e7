"""What is known of a micro-batch, from Spark's progress reports, and how it is shown.

The lag of a micro-batch is the number of records that were in the topics when it was planned, and
that are processed neither by it nor by earlier ones. Sources that do not report their end have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LETTERS_OF_ID = 8


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

    def line(self) -> str:
        """Return the report as a line of text."""
        lag = "-" if self.lag is None else f"{self.lag:,}"
        return (
            f"{self.at[11:19]}  {self.query:<20}  batch {self.batch:<4}  {self.rows:>9,} rows  "
            f"{self.rows_per_second:>9,.0f} rows/s  lag {lag}  {self.duration_ms / 1000:.2f} s"
        )


def report_of(progress: Mapping[str, Any]) -> Report:
    """Return the report of a `StreamingQueryProgress`, given as JSON."""
    sources = progress.get("sources", [])
    lags = [_lag(each) for each in sources]
    known = [each for each in lags if each is not None]
    return Report(
        query_id=progress["id"],
        query=progress.get("name") or progress["id"][:LETTERS_OF_ID],
        batch=progress["batchId"],
        at=progress["timestamp"],
        rows=sum(each.get("numInputRows", 0) for each in sources),
        rows_per_second=_rate(progress),
        duration_ms=progress.get("durationMs", {}).get("triggerExecution", 0),
        lag=sum(known) if known and len(known) == len(lags) else None,
    )


def _rate(progress: Mapping[str, Any]) -> float:
    """Return the processed rows per second. Spark writes a rate that is no number as text."""
    rate = progress.get("processedRowsPerSecond", 0)
    return float(rate) if isinstance(rate, int | float) else 0.0


def _lag(source: Mapping[str, Any]) -> int | None:
    """Return how many offsets are left, if the source has offsets by topic and partition."""
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(key, 0)) for key, offset in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    if not isinstance(value, dict) or not value:
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if isinstance(offset, int):  # The source odradek also has the ids of topics: text.
                found[topic, partition] = offset
    return found or None
