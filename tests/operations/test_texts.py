"""Durations, times, sizes and positions as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.operations.texts import (
    Position,
    duration_text,
    parse_duration,
    parse_position,
    parse_time,
    size_text,
    time_text,
)

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0s", 0), ("500ms", 500), ("90s", 90_000), ("1h30m", 5_400_000), ("1.5d", 129_600_000)],
)
def test_durations(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5x", "-5s", "1h30", "1h 30m"])
def test_no_durations(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("now", NOW),
        ("@1234", 1234),
        ("15m", NOW - 900_000),
        ("2026-11-20T10:30:00Z", 1_795_170_600_000),
        ("2026-11-20T10:30:00.250+01:00", 1_795_167_000_250),
    ],
)
def test_times(text, milliseconds):
    assert parse_time(text, NOW) == milliseconds


def test_times_without_a_zone_are_local():
    expected = datetime(2026, 11, 20).astimezone().timestamp() * 1000
    assert parse_time("2026-11-20", NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "@x", "12"])
def test_no_times(text):
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position("earliest")),
        ("earliest", Position("earliest")),
        ("end", Position("latest")),
        ("max-timestamp", Position("max-timestamp")),
        ("0", Position("offset", 0)),
        ("1200", Position("offset", 1200)),
        ("-10", Position("before-end", 10)),
        ("15m", Position("time", NOW - 900_000)),
        ("@5", Position("time", 5)),
    ],
)
def test_positions(text, position):
    assert parse_position(text, NOW) == position


@pytest.mark.parametrize("text", ["", "-", "x", "--5", "1e3", "²"])
def test_no_positions(text):
    with pytest.raises(ValueError, match="is not a position"):
        parse_position(text, NOW)


@pytest.mark.parametrize(
    ("count", "text"),
    [(-1, "-"), (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_949, "1 MB"),
     (1_234_567, "1.23 MB"), (5 * 10**17, "500 PB")],
)  # fmt: skip
def test_sizes(count, text):
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0.5, "0.5 ms"), (12, "12 ms"), (3400, "3.4 s"), (300_000, "5 min"), (7_200_000, "2 h"),
     (7_800_000, "2 h 10 min"), (86_400_000, "1 d"), (93_600_000, "1 d 2 h")],
)  # fmt: skip
def test_spans(milliseconds, text):
    assert duration_text(milliseconds) == text


@given(st.integers(0, 4_000_000_000_000))
def test_written_times_are_read_back(milliseconds):
    assert parse_time(time_text(milliseconds), NOW) == milliseconds
    assert parse_time(time_text(milliseconds, utc=True), NOW) == milliseconds


def test_times_that_no_calendar_has():
    assert time_text(-1) == "-"
    assert time_text(2**62) == f"@{2**62}"
    assert time_text(0, utc=True) == "1970-01-01T00:00:00.000Z"
    assert datetime.fromisoformat(time_text(0)) == datetime(1970, 1, 1, tzinfo=UTC)
