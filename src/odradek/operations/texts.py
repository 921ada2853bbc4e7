"""Parses and formats durations, times, sizes, counts and positions in a log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES = ("kB", "MB", "GB", "TB", "PB")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")

PositionKind = Literal["earliest", "latest", "max-timestamp", "offset", "before-end", "time"]
_NAMES: dict[str, PositionKind] = {
    "beginning": "earliest",
    "earliest": "earliest",
    "start": "earliest",
    "end": "latest",
    "latest": "latest",
    "max-timestamp": "max-timestamp",
}


def parse_duration(text: str) -> int:
    """Parse `1h30m` or `500ms` into milliseconds.

    Raises:
        ValueError: the text does not have this form.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write 90s, 15m, 1h30m, 7d …")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def parse_time(text: str, now: int) -> int:
    """Parse an ISO time, `now`, `@milliseconds`, or how long ago (`15m`); return ms since 1970.

    An ISO time without a zone is local time.

    Raises:
        ValueError: the text has none of these forms.
    """
    if text == "now":
        return now
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    if _DURATION.match(text):
        return now - parse_duration(text)
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time; write 2026-11-20, 2026-11-20T10:30, 15m (ago), now "
            "or @milliseconds"
        ) from None


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition.

    `value` is the offset, the time in ms, or the number of offsets before the end.
    """

    kind: PositionKind
    value: int = 0


def parse_position(text: str, now: int) -> Position:
    """Parse `beginning`, `end`, `max-timestamp`, an offset, `-N` before the end, or a time.

    Raises:
        ValueError: the text has none of these forms.
    """
    if text in _NAMES:
        return Position(_NAMES[text])
    if text.isascii() and text.isdigit():
        return Position("offset", int(text))
    if text[:1] == "-" and text[1:].isdigit():
        return Position("before-end", int(text[1:]))
    try:
        return Position("time", parse_time(text, now))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a position; write beginning, end, an offset, -10 (before the end), "
            "2026-11-20T10:30, 15m (ago) or @milliseconds"
        ) from None


def size_text(count: int) -> str:
    """Format bytes: `1.4 MB`; `-` for an unknown (negative) number."""
    if count < 0:
        return "-"
    if count < 1000:
        return f"{count} B"
    size, unit = count / 1000, 0
    while size >= 999.5 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_SIZES[unit]}"


def duration_text(milliseconds: float) -> str:
    """Format a time span: `12 ms`, `3.4 s`, `5 min`, `2 h 10 min`, `3 d 4 h`."""
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def time_text(timestamp_ms: int, *, utc: bool = False) -> str:
    """Format a time in ISO form: `2026-11-20T10:30:00.123+01:00`; `-` for none."""
    from datetime import UTC, datetime

    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{timestamp_ms}"
    if not utc:
        moment = moment.astimezone()
    moment = moment.replace(microsecond=timestamp_ms % 1000 * 1000)
    text = moment.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def plural(count: int, thing: str) -> str:
    """Return a count with its noun: `1 record`, `2 records`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
