"""Encoded batches as rows, which Spark's shuffle moves to the tasks that write them.

A row of `write_schema.ENCODED_SCHEMA` stands for one batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from odradek.arrow.encoding import EncodedRecords
from odradek.records.compression import Buffer, Codec
from odradek.spark.write_schema import PARTITION, RECORD_COUNT, RECORDS

Placed = list[tuple[int, EncodedRecords]]
"""Batches, each with the number of its partition."""


def to_rows(batches: Placed) -> pa.RecordBatch:
    """Return a row for each batch."""
    return pa.record_batch(
        {
            PARTITION: pa.array([partition for partition, _ in batches], pa.int32()),
            RECORD_COUNT: pa.array([records.record_count for _, records in batches], pa.int32()),
            RECORDS: _binaries([records.data for _, records in batches]),
        }
    )


def _binaries(items: list[Buffer]) -> pa.BinaryArray:
    """Return a column of the items, with one copy of their bytes."""
    bounds = np.zeros(len(items) + 1, np.int32)
    np.cumsum([len(each) for each in items], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(items))]
    return pa.Array.from_buffers(pa.binary(), len(items), buffers)


def from_rows(rows: pa.RecordBatch, codec: Codec) -> Iterator[tuple[int, EncodedRecords]]:
    """Yield the batches of rows, each with the number of its partition."""
    partitions, counts = (rows.column(name).to_pylist() for name in (PARTITION, RECORD_COUNT))
    records = rows.column(RECORDS)
    for number, (partition, count) in enumerate(zip(partitions, counts, strict=True)):
        data = memoryview(records[number].as_buffer())
        yield partition, EncodedRecords(data, count, codec)
