"""Durations as text: "5m", "1h 30m", "250ms"; also timedelta, and numbers of milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")

Duration = str | int | timedelta


def milliseconds(duration: Duration) -> int:
    """Return a duration in milliseconds.

    Raises:
        ValueError: the text is no duration, or it is negative.
    """
    if isinstance(duration, timedelta):
        found = round(duration.total_seconds() * 1000)
    elif isinstance(duration, int):
        found = duration
    else:
        found = _parsed(duration)
    if found < 0:
        raise ValueError(f"a duration cannot be negative: {duration!r}")
    return found


def _parsed(text: str) -> int:
    total = 0.0
    place = 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = _PART.match(stripped, place)
        if match is None:
            break
        total += float(match[1]) * _UNITS[match[2]]
        place = match.end()
    if place == 0 or place < len(stripped):
        raise ValueError(f'{text!r} is no duration; write it like "5m", "1h 30m" or "250ms"')
    return round(total)
