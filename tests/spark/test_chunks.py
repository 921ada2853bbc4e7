"""Tests how Arrow batches are joined and cut before their rows are encoded."""

import pyarrow as pa

from odradek.spark import topic_writer
from odradek.spark.topic_writer import CHUNK_BYTES


def batch(first: int, rows: int, size: int) -> pa.RecordBatch:
    values = [b"%08d" % number + bytes(size - 8) for number in range(first, first + rows)]
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def test_rows_keep_their_order_in_parts_of_a_bounded_size() -> None:
    batches = [batch(0, 0, 8), batch(0, 9000, 1000), batch(9000, 3, 8), batch(9003, 500, 20_000)]
    tables = list(topic_writer._chunks(batches))
    values = [value for table in tables for value in table.column("value").to_pylist()]
    assert [int(value[:8]) for value in values] == list(range(9503))
    assert all(table.nbytes < 2 * CHUNK_BYTES for table in tables)
    assert all(table.column("value").num_chunks == 1 for table in tables)


def test_batches_of_about_the_right_size_are_not_copied() -> None:
    batches = [batch(0, 8000, 1000), batch(8000, 8000, 1000)]
    tables = list(topic_writer._chunks(batches))
    found = [table.column("value").chunk(0).buffers()[2].address for table in tables]
    assert found == [each.column("value").buffers()[2].address for each in batches]


def test_a_row_larger_than_a_part_is_a_part_alone() -> None:
    tables = list(topic_writer._chunks([batch(0, 2, 2 * CHUNK_BYTES)]))
    assert [table.num_rows for table in tables] == [1, 1]
