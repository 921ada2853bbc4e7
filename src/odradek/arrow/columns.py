"""Converts records to Arrow columns, and defines the Arrow schema.

`record_fields` finds the positions of keys and values in compiled code, and `positions` with numpy,
where nothing is compiled or if headers are wanted. Arrow extracts keys and values from the payload.
For this the payload is treated as one binary array with the item boundaries `[key start, key end,
value start, value end] * n`. Every fourth item is a key, and every fourth item is a value. `take`
copies these items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from odradek.arrow import positions, record_fields
from odradek.arrow.batches import Records, Scan, Sections, decompressed
from odradek.records.compiled import COMPILED
from odradek.records.errors import CorruptBatch

ARROW_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARROW_HEADERS = pa.list_(pa.field("element", ARROW_HEADER))
ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
ARROW_SCHEMA_WITH_HEADERS = ARROW_SCHEMA.append(pa.field("headers", ARROW_HEADERS))

LOG_APPEND_TIME = 1
"""The timestamp type LogAppendTime; 0 is CreateTime."""
NO_TIMESTAMP = -1
PART_BYTES = 2 << 20 if COMPILED else 8 << 20
"""The size of the records that are converted at once. With 8 MiB the arrays do not fit into the
processor's cache, and a record takes a third more time (measured). But if nothing is compiled,
lockstep needs many batches (`positions`)."""

Positions = NDArray[np.int64]


def record_batches(
    scan: Scan,
    topic: str,
    partition: int,
    offsets: range,
    include_headers: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `scan` with an offset in `offsets`, about `PART_BYTES` at a time.

    Raises:
        CorruptBatch: the records are inconsistent.
        RecordsError: the records cannot be decompressed.
    """
    for records in decompressed(scan, PART_BYTES):
        yield record_batch(records, topic, partition, offsets, include_headers)


def record_batch(
    records: Records,
    topic: str,
    partition: int,
    offsets: range,
    include_headers: bool,
) -> pa.RecordBatch:
    """Return the records with an offset in `offsets` as one Arrow batch.

    Raises:
        CorruptBatch: the records are inconsistent.
    """
    if COMPILED and not include_headers:
        decoded = decode_compiled(records, offsets)
    else:
        decoded = decode_by_columns(records, offsets, include_headers)
    count = len(decoded.offset)
    columns = [
        decoded.key,
        decoded.value,
        pa.repeat(pa.scalar(topic), count),
        pa.array(np.full(count, partition, np.int32)),
        decoded.offset,
        decoded.timestamp.cast(ARROW_SCHEMA[5].type),
        decoded.timestamp_type,
    ]
    if include_headers:
        columns.append(decoded.headers)
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA_WITH_HEADERS)
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


class Decoded(NamedTuple):
    """What records contain, as Arrow columns."""

    key: pa.BinaryArray
    value: pa.BinaryArray
    offset: pa.Int64Array
    timestamp: pa.Int64Array
    """Microseconds."""
    timestamp_type: pa.Int32Array
    headers: pa.ListArray | None = None


def decode_by_columns(records: Records, offsets: range, include_headers: bool) -> Decoded:
    """Decode records with numpy, one field of all records after the other.

    Raises:
        CorruptBatch: the records are inconsistent.
    """
    payload, sections = records
    starts = positions.record_starts(payload, sections)
    found = positions.fields(payload, starts)
    offset = sections.repeated(sections.base_offset) + found.offset_delta
    inside = (offset >= offsets.start) & (offset < offsets.stop)
    timestamp_type = np.repeat(sections.is_append_time.astype(np.int32), sections.record_count)
    timestamp = sections.repeated(sections.timestamp)
    timestamp += np.where(timestamp_type == LOG_APPEND_TIME, 0, found.timestamp_delta)
    if not inside.all():
        found = positions.Fields(*(column[inside] for column in found))
        offset, timestamp = offset[inside], timestamp[inside]
        timestamp_type = timestamp_type[inside]
    buffer = pa.py_buffer(payload)
    key, value = binary_columns(
        buffer, (found.key_start, found.key_length), (found.value_start, found.value_length)
    )
    return Decoded(
        key,
        value,
        pa.array(offset),
        pa.array(timestamp * 1000, mask=timestamp == NO_TIMESTAMP),
        pa.array(timestamp_type),
        headers_column(payload, buffer, found) if include_headers else None,
    )


def decode_compiled(records: Records, offsets: range) -> Decoded:
    """Decode records with a loop over their bytes (`record_fields`), without their headers.

    Raises:
        CorruptBatch: the records are inconsistent.
    """
    payload, sections = _in_bytes(records)
    found = record_fields.FieldWriter(payload, offsets.start, offsets.stop)
    batches = zip(*(column.tolist() for column in sections), strict=True)
    try:
        counts = [found.append(*batch) for batch in batches]
    except IndexError:
        raise CorruptBatch("varint beyond the end of the records") from None
    count = sum(counts)
    nulls = np.frombuffer(found.nulls.getvalue(), np.int64)

    def null_where(kind: int) -> NDArray[np.bool_] | None:
        return nulls & kind != 0 if found.kinds_of_nulls & kind else None

    bounds = found.bounds.getvalue()
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(payload)]
    items = pa.Array.from_buffers(pa.binary(), max(0, 4 * count - 1), buffers, null_count=0)
    first = np.arange(0, 4 * count, 4, dtype=np.int32)
    timestamps = np.frombuffer(found.timestamps.getvalue(), np.int64)
    return Decoded(
        items.take(pa.array(first, mask=null_where(record_fields.NULL_KEY))),
        items.take(pa.array(first + 2, mask=null_where(record_fields.NULL_VALUE))),
        pa.array(np.frombuffer(found.offsets.getvalue(), np.int64)),
        pa.array(timestamps, mask=null_where(record_fields.NULL_TIMESTAMP)),
        pa.array(np.repeat(sections.is_append_time.astype(np.int32), counts)),
    )


def _in_bytes(records: Records) -> tuple[bytes, Sections]:
    """Return records in an object of type `bytes`, which compiled loops need.

    Bytes in an object of another type are copied.
    """
    payload, sections = records
    whole = payload.obj if isinstance(payload, memoryview) else payload
    if isinstance(whole, bytes) and len(whole) == len(payload):
        return whole, sections
    if not len(sections.start):
        return b"", sections
    first, end = int(sections.start[0]), int(sections.end[-1])
    shifted = sections._replace(start=sections.start - first, end=sections.end - first)
    return bytes(payload[first:end]), shifted


def binary_columns(buffer: pa.Buffer, *parts: tuple[Positions, Positions]) -> list[pa.Array]:
    """Return one binary array for each part, with the byte strings at (starts, lengths).

    A length of -1 means null. The parts of a record must be in order and must not overlap, and the
    same holds for the records. Then all bounds form one ascending list, as Arrow needs.
    """
    count, stride = len(parts[0][0]), 2 * len(parts)
    if count == 0:
        return [pa.array([], pa.binary()) for _ in parts]
    bounds = np.empty(stride * count, np.int32)
    for place, (start, length) in enumerate(parts):
        bounds[2 * place :: stride] = start
        bounds[2 * place + 1 :: stride] = start + np.maximum(length, 0)
    items = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), buffer], null_count=0
    )
    index = np.arange(0, len(bounds), stride, dtype=np.int32)
    return [
        items.take(pa.array(index + 2 * place, mask=length < 0))
        for place, (_, length) in enumerate(parts)
    ]


def headers_column(payload: object, buffer: pa.Buffer, found: positions.Fields) -> pa.Array:
    """Return the headers of records; null if a record has none, as in Spark's own source."""
    headers = positions.headers(payload, found)  # type: ignore[arg-type]
    key, value = binary_columns(
        buffer, (headers.key_start, headers.key_length), (headers.value_start, headers.value_length)
    )
    bounds = np.concatenate(([0], np.cumsum(headers.counts))).astype(np.int32)
    entries = pa.StructArray.from_arrays([as_text(key), value], fields=list(ARROW_HEADER))
    return pa.ListArray.from_arrays(
        pa.array(bounds), entries, type=ARROW_HEADERS, mask=pa.array(headers.counts == 0)
    )


def as_text(column: pa.Array) -> pa.Array:
    """Decode UTF-8 as strings. Invalid bytes are replaced, as in Java."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode("utf-8", "replace") for item in column.to_pylist()])
