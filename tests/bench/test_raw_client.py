"""The offset at which the next fetch begins."""

from __future__ import annotations

from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.measures.raw_fetch import slower
from bench.raw_client import next_offset

from odradek.records.builder import RecordBatchBuilder


def batch(base_offset: int, records: int) -> bytes:
    builder = RecordBatchBuilder()
    for number in range(records):
        builder.append(1000, None, b"x" * number)
    return base_offset.to_bytes(8, "big") + bytes(builder.build())[8:]


def test_the_last_whole_batch_decides() -> None:
    data = batch(5, 3) + batch(8, 10)
    assert next_offset(data) == 18
    assert next_offset(data[:-1]) == 8
    assert next_offset(data[:20]) == -1


def test_slower_compares_round_by_round() -> None:
    cpu = Quantity("CPU", "s")
    fresh = Figure("raw_fetch", cpu, {OURS: [1.0, 2.0], THEIRS: [4.0, 4.0]})
    later = Figure("raw_fetch", cpu, {OURS: [1.5, 2.0], THEIRS: [4.0, 2.0]})
    assert slower(fresh, later).values == {OURS: [1.5, 1.0], THEIRS: [1.0, 0.5]}
