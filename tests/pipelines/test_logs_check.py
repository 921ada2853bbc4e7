"""DuckDB's check of the lake sees lines that are wrong, lost or doubled."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.logs.check import reconcile
from examples.logs.shipping import LAST_LINE, Content, Shipped

TEXTS = ["2026-11-28 01:00:00 ERROR a", "no time: Info", ""]
TEXTS.append("<30>Nov 30 01:00:00 Debug: a year before")
NOON = datetime(2026, 11, 28, 1, tzinfo=UTC)
MODIFIED_MS = int(NOON.timestamp() * 1000)
RIGHT = [
    ("2026-11-28", NOON, "error"),
    ("undated", None, "info"),
    ("undated", None, None),
    ("2025-11-30", datetime(2025, 11, 30, 1, tzinfo=UTC), "debug"),
]


@pytest.fixture
def shipped(tmp_path: Path) -> Shipped:
    file = tmp_path / "app.log"
    content = "\n".join(TEXTS).encode() + b"\n"
    file.write_bytes(content + b"written later\n")
    return Shipped([Content(str(file), 1, file, len(content), [(LAST_LINE, MODIFIED_MS)])], 4, 0)


def lake(directory: Path, shipped: Shipped, rows, generation: int = 1) -> list[str]:
    """Parquet files with rows (line, day, time, level)."""
    (content,) = shipped.contents
    paths = []
    for count, (line, day, time, level) in enumerate(rows):
        path = directory / f"day={day}" / f"{count}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        row = {
            "file": content.file,
            "generation": generation,
            "line": line,
            "text": TEXTS[line - 1],
            "time": time,
            "level": level,
        }
        kinds = [
            ("file", pa.string()),
            ("generation", pa.int32()),
            ("line", pa.int32()),
            ("text", pa.string()),
        ]
        kinds += [("time", pa.timestamp("us", "UTC")), ("level", pa.string())]
        pq.write_table(pa.Table.from_pylist([row], pa.schema(kinds)), path)
        paths.append(str(path))
    return paths


def changed(rows, number, **fields):
    line, day, time, level = rows[number]
    new = {"line": line, "day": day, "time": time, "level": level, **fields}
    return [*rows[:number], tuple(new.values()), *rows[number + 1 :]]


ROWS = [(number, *each) for number, each in enumerate(RIGHT, 1)]


@pytest.mark.parametrize(
    ("rows", "found", "differing"),
    [
        (ROWS, 4, 0),
        (ROWS[:-1], 3, 1),
        ([*ROWS, ROWS[0]], 5, 1),
        (changed(ROWS, 0, level="info"), 4, 2),
        (changed(ROWS, 0, time=NOON.replace(hour=2)), 4, 2),
        (changed(ROWS, 1, day="2026-11-28"), 4, 2),
        (changed(ROWS, 3, day="2026-11-30"), 4, 2),
    ],
    ids=["right", "lost", "doubled", "level", "time", "day", "year"],
)
def test_the_lake_is_compared_with_the_file(tmp_path, shipped, rows, found, differing):
    by_file, everything, differences = reconcile(shipped, lake(tmp_path, shipped, rows))
    assert by_file[1:] == (4, min(found, 4))
    assert everything == ("all lines that were given", 4, found)
    assert differences[1:] == (0, differing)


def test_generations_and_times_are_compared(tmp_path, shipped):
    (content,) = shipped.contents
    next_year_ms = MODIFIED_MS + 365 * 24 * 3_600_000
    times = [(1, MODIFIED_MS), (3, next_year_ms), (4, next_year_ms)]
    again = Content(content.file, 2, content.path, content.size_bytes, times)
    both = Shipped([content, again], 8, 0)
    first = lake(tmp_path, shipped, ROWS)
    later = changed(ROWS, 3, day="2026-11-30", time=datetime(2026, 11, 30, 1, tzinfo=UTC))
    second = lake(tmp_path / "again", shipped, later, generation=2)
    one, two, everything, differences = reconcile(both, first + second)
    assert one == (content.file, 4, 4)
    assert two == (f"{content.file} (2)", 4, 4)
    assert everything[1:] == (8, 8)
    assert differences[1:] == (0, 0)
    assert reconcile(both, first + first)[-1][1:] == (0, 8)
