"""Encodes the rows of an Arrow table as batches of a topic, without a step of Python for each row.

Only the partitions of keys are chosen row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.arrow.encoding import EncodedRecords, Rows, encode_records

STICKY = -1
"""The partition of rows without a key: that of other records without a key."""


def rows_of(table: Any) -> Rows:
    """Return the columns of a table: `value`, and `key` and `headers` if there are any.

    `table` is a `pyarrow.Table` or `RecordBatch`, or another object with Arrow's interface, such as a
    data frame of Polars. Keys and values are binary or text.

    Raises:
        TypeError: it is no table.
        ValueError: there is no column `value`, or columns have other types.
    """
    try:
        found = pa.table(table)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a table of Arrow is needed, not {type(table).__name__}") from error
    unknown = set(found.column_names) - {"key", "value", "headers"}
    if "value" not in found.column_names or unknown:
        raise ValueError(
            f"the columns are {', '.join(found.column_names)}; they must be value, and perhaps key and headers"
        )
    key = None if "key" not in found.column_names else _binary(found, "key")
    headers = None
    if "headers" in found.column_names:
        headers = _joined(found, "headers").cast(_HEADERS)
    return Rows(_binary(found, "value"), key, headers)


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _joined(table: pa.Table, name: str) -> Any:
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # older versions of pyarrow, or an empty table
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    return column


def _binary(table: pa.Table, name: str) -> pa.BinaryArray:
    try:
        return _joined(table, name).cast(pa.binary())
    except pa.ArrowException as error:
        raise ValueError(f"the column {name} is no column of bytes or texts: {error}") from error


def encoded(
    rows: Rows, partition: int | None, partition_of: Callable[[bytes | None], int], batch_bytes: int
) -> Iterator[tuple[int, EncodedRecords]]:
    """Yield partitions, or `STICKY`, and the encoded records of a batch each.

    All rows go to `partition`; if it is None, each goes where its key belongs, in the order of the rows.
    """
    if partition is None and rows.key is not None and rows.key.null_count < len(rows.key):
        chosen = np.fromiter(map(partition_of, rows.key.to_pylist()), np.int64, len(rows.key))
        for each in np.unique(chosen).tolist():
            part = rows.take(np.flatnonzero(chosen == each))
            for records in encode_records(part, batch_bytes):
                yield each, records
        return
    for records in encode_records(rows, batch_bytes):
        yield STICKY if partition is None else partition, records
