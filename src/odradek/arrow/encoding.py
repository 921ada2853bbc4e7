"""Encodes Arrow columns as record batches, without a Python step per record.

numpy encodes the numbers around the key and value of each record as varints. Arrow then joins
numbers, key, value and headers of all rows in one call. The data buffer of the joined column has
the encoded records one after the other. Batches are slices of this buffer. `positions` describes
the layout of records, and `odradek.records.batch` the header.

All records get the same timestamp, so timestamp deltas are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from odradek.records.compression import Buffer, Codec, compress

Integers = NDArray[np.int64]

VARINT_SIZE_MAX = 5
OVERHEAD_MAX = 27
"""The maximum size of a record without key, value and headers: five varints and two bytes."""
LENGTH_START = 2
"""The size of attributes and timestamp delta, one zero byte each, which follow the length."""


class Rows(NamedTuple):
    """Columns of equal length. If a column is None, all keys are null or all headers are empty."""

    value: pa.BinaryArray
    key: pa.BinaryArray | None = None
    headers: pa.ListArray | None = None
    """Lists of structs of key (string) and value (binary)."""

    def take(self, index: Integers) -> Rows:
        """Return the rows with the numbers in `index`, in the order of `index`."""
        return Rows(*(None if column is None else column.take(pa.array(index)) for column in self))

    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` to before `stop`, without a copy."""
        return Rows(
            *(None if column is None else column.slice(start, stop - start) for column in self)
        )


class EncodedRecords(NamedTuple):
    """The encoded records of one batch, and the number of records."""

    data: Buffer
    record_count: int
    codec: Codec = Codec.NONE
    """How `data` is compressed."""

    def compressed(self, codec: Codec, level: int | None = None) -> EncodedRecords:
        """Return the records as they are in a batch with a codec, at its default level or another."""
        if self.codec == codec:
            return self
        assert self.codec == Codec.NONE, "records are compressed once"
        return EncodedRecords(compress(codec, self.data, level), self.record_count, codec)


def encode_records(rows: Rows, batch_size: int) -> Iterator[EncodedRecords]:
    """Encode `rows` in pieces of at most `batch_size` bytes. A larger record is a piece alone."""
    count = len(rows.value)
    if count == 0:
        return
    key_length, key = _bytes_and_lengths(rows.key, count)
    value_length, value = _bytes_and_lengths(rows.value, count)
    header_length, headers = _headers(rows.headers, count)
    payload = np.maximum(key_length, 0) + np.maximum(value_length, 0) + header_length
    bounds = _cut(payload + OVERHEAD_MAX, batch_size)
    offset_delta = np.arange(count) - np.repeat(bounds[:-1], np.diff(bounds))

    zigzag_key, zigzag_value, delta = zigzag(key_length), zigzag(value_length), offset_delta << 1
    length = payload + LENGTH_START + sum(map(varint_sizes, (delta, zigzag_key, zigzag_value)))
    before_key = varints([length << 1, delta, zigzag_key], zeros_after_first=LENGTH_START)
    joined = pc.binary_join_element_wise(
        before_key, key, varints([zigzag_value]), value, headers, b"", null_handling="replace"
    )
    _, joined_bounds, data = joined.buffers()
    ends = np.frombuffer(joined_bounds, np.int32)[joined.offset :][bounds].tolist()
    view = memoryview(data)
    for i in range(len(bounds) - 1):
        yield EncodedRecords(view[ends[i] : ends[i + 1]], int(bounds[i + 1] - bounds[i]))


def _bytes_and_lengths(
    column: pa.BinaryArray | None, count: int
) -> tuple[Integers, pa.BinaryArray | pa.Scalar]:
    """Return the bytes to join for a column, and their lengths (-1 for null)."""
    if column is None:
        return np.full(count, -1), pa.scalar(b"")
    lengths = pc.fill_null(pc.binary_length(column), -1)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64), column


def _headers(
    column: pa.ListArray | None, count: int
) -> tuple[Integers, pa.BinaryArray | pa.Scalar]:
    """Return the header count and headers of each row as bytes, and the lengths of these bytes."""
    if column is None:
        return np.ones(count, np.int64), pa.scalar(b"\0")
    entries = column.flatten()  # respects nulls and slices
    keys, values = pc.struct_field(entries, 0).cast(pa.binary()), pc.struct_field(entries, 1)
    key_length, key = _bytes_and_lengths(keys, len(entries))
    value_length, value = _bytes_and_lengths(values, len(entries))
    if (key_length < 0).any():
        raise ValueError("a header has no key")
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    counts = counts.astype(np.int64)
    each = pc.binary_join_element_wise(
        varints([zigzag(key_length)]),
        key,
        varints([zigzag(value_length)]),
        value,
        b"",
        null_handling="replace",
    )
    # The headers of a row are contiguous, so one binary value of the row can contain all of them.
    _, bounds, data = each.buffers()
    ends = np.frombuffer(bounds, np.int32)[each.offset :][np.concatenate(([0], np.cumsum(counts)))]
    of_rows = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(np.ascontiguousarray(ends)), data]
    )
    with_count = pc.binary_join_element_wise(varints([counts << 1]), of_rows, b"")
    return pc.binary_length(with_count).to_numpy().astype(np.int64), with_count


def _cut(sizes: Integers, batch_size: int) -> Integers:
    """Return the number of the first row of each batch, and the number of rows at the end.

    Each batch has as many rows as fit into `batch_size`, and at least one.
    """
    ends = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + batch_size, side="right"))
        bounds.append(max(stop, start + 1))
    return np.array(bounds)


def zigzag(values: Integers) -> Integers:
    """Encode signed numbers as zigzag: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (values << 1) ^ (values >> 63)


def varint_sizes(values: Integers) -> Integers:
    """Return the size of each unsigned number (below 2^35) as a varint, in bytes."""
    return sum(
        ((values >> shift) > 0).astype(np.int64) for shift in (7, 14, 21, 28)
    ) + np.ones_like(values)


def varints(columns: list[Integers], zeros_after_first: int = 0) -> pa.BinaryArray:
    """Return for each row one binary value with the varints of the row's numbers.

    `zeros_after_first` zero bytes follow the first varint.
    """
    sizes = [varint_sizes(column) for column in columns]
    total = sum(sizes) + zeros_after_first
    bounds = np.zeros(len(columns[0]) + 1, np.int32)
    np.cumsum(total, out=bounds[1:])
    out = np.zeros(int(bounds[-1]), np.uint8)
    position = bounds[:-1].astype(np.int64)
    for i, (values, size) in enumerate(zip(columns, sizes, strict=True)):
        _put(out, position, values, size)
        position = position + size + (zeros_after_first if i == 0 else 0)
    return pa.Array.from_buffers(
        pa.binary(), len(columns[0]), [None, pa.py_buffer(bounds), pa.py_buffer(out)]
    )


def _put(out: NDArray[np.uint8], position: Integers, values: Integers, size: Integers) -> None:
    """Write one varint at each position."""
    out[position] = (values & 0x7F) | ((size > 1) << 7)
    for byte in range(1, VARINT_SIZE_MAX):
        rows = np.flatnonzero(size > byte)
        if not rows.size:
            break
        continued = (size[rows] > byte + 1) << 7
        out[position[rows] + byte] = ((values[rows] >> (7 * byte)) & 0x7F) | continued
