"""What Spark's progress reports of a micro-batch say, beyond their plain fields.

The lag of a micro-batch is the number of records that were in the topics when it was planned, and
that are processed neither by it nor by earlier ones. Sources that do not report their end have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LETTERS_OF_ID = 8

Progress = Mapping[str, Any]
"""A `StreamingQueryProgress` as JSON."""


def name(progress: Progress) -> str:
    """Return the name of the query, or the first letters of its id."""
    return str(progress.get("name") or progress["id"][:LETTERS_OF_ID])


def rows(progress: Progress) -> int:
    """Return the number of rows that were read."""
    return sum(each.get("numInputRows", 0) for each in progress.get("sources", []))


def rate(progress: Progress) -> float:
    """Return the processed rows per second. Spark writes a rate that is no number as text."""
    found = progress.get("processedRowsPerSecond", 0)
    return float(found) if isinstance(found, int | float) else 0.0


def duration_ms(progress: Progress) -> int:
    """Return the duration of the micro-batch in milliseconds."""
    return int(progress.get("durationMs", {}).get("triggerExecution", 0))


def lag(progress: Progress) -> int | None:
    """Return the lag of all sources; None if a source has none."""
    lags = [_lag(each) for each in progress.get("sources", [])]
    known = [each for each in lags if each is not None]
    return sum(known) if known and len(known) == len(lags) else None


def state(progress: Progress) -> tuple[int, int]:
    """Return the rows in the state of the query, and the memory that they use in bytes."""
    operators = progress.get("stateOperators", [])
    return (
        sum(each.get("numRowsTotal", 0) for each in operators),
        sum(each.get("memoryUsedBytes", 0) for each in operators),
    )


def watermark(progress: Progress) -> str | None:
    """Return the watermark as ISO text; None if the query has none, or none yet."""
    found = progress.get("eventTime", {}).get("watermark")
    return None if found is None or found.startswith("1970-01-01T00:00:00") else str(found)


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
