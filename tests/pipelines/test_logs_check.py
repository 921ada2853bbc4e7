"""DuckDB's check of the lake sees lines that are wrong, lost or doubled."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.logs.check import reconcile
from examples.logs.shipping import Shipped

from odradek.pipelines.own.shipping import Position, Shipment

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
    name = str(file)
    return Shipped(Shipment({name: Position(4, 4)}), {name: len(content)}, {name: MODIFIED_MS})


def lake(directory: Path, shipped: Shipped, rows) -> list[str]:
    """Parquet files with rows (line, day, time, level)."""
    (file,) = shipped.bytes_read
    paths = []
    for count, (line, day, time, level) in enumerate(rows):
        path = directory / f"day={day}" / f"{count}.parquet"
        path.parent.mkdir(exist_ok=True)
        row = {"file": file, "line": line, "text": TEXTS[line - 1], "time": time, "level": level}
        kinds = [("file", pa.string()), ("line", pa.int32()), ("text", pa.string())]
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
