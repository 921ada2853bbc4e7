"""Decodes the records of a batch one by one.

length varint | attributes int8 | timestamp delta varlong | offset delta varint
| key length varint (-1: null) | key | value length varint (-1: null) | value
| header count varint | each: key length, key, value length (-1: null), value
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.records.batch import NO_SEQUENCE, RecordBatch, add_to_sequence
from odradek.records.compression import Codec, decompress_pieces
from odradek.records.errors import DecompressionLimit, InvalidRecords
from odradek.records.varint import read_varint, read_varlong

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_SIZE_LIMIT: Final = 1 << 30
"""Default limit of the size of a record, in bytes."""


class Record(NamedTuple):
    """A record as a consumer sees it. `sequence` is -1 without an idempotent producer."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    sequence: int = NO_SEQUENCE


def iterate_records(batch: RecordBatch, limit_bytes: int = RECORD_SIZE_LIMIT) -> Iterator[Record]:
    """Yield the records of a batch, decompressed piece by piece.

    `limit_bytes` is the maximum size of one record, which limits the memory.

    Raises:
        InvalidRecords: the payload cannot be decompressed, does not consist of records, or does not
            hold as many records as the header says.
        DecompressionLimit: a record is larger than `limit_bytes`.
    """
    if batch.count < 0:
        raise InvalidRecords(f"the batch header says that it has {batch.count} records")
    if batch.count == 0:
        return
    shared_time = batch.max_timestamp if batch.is_log_append_time else None
    pieces = decompress_pieces(batch.codec, batch.payload)
    data = b""
    position = 0
    remaining = batch.count
    while remaining:
        length, start = _record_length(data, position)
        missing = start + length - len(data)
        if length < 0 or missing > 0:
            if length > limit_bytes:
                raise DecompressionLimit(
                    f"a record of {length} bytes is larger than the limit of {limit_bytes}"
                )
            data = _extended(data[position:], missing if length >= 0 else 1, pieces, batch)
            position = 0
            continue
        position = start + length
        remaining -= 1
        yield _read_record(data, start, position, batch, shared_time)
    if position != len(data) or next(pieces, None):
        raise InvalidRecords(f"the batch holds more than the {batch.count} records it counts")


def iterate_fields(batch: RecordBatch) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield offset, key and value of the records of a batch.

    For uncompressed batches, this is faster than `iterate_records`.

    Raises:
        InvalidRecords: as in `iterate_records`.
    """
    if batch.codec != Codec.NONE or batch.count < 0:
        for record in iterate_records(batch):
            yield record.offset, record.key, record.value
        return
    data = bytes(batch.payload)
    base_offset = batch.base_offset
    position = 0
    try:
        for _ in range(batch.count):
            length, position = read_varint(data, position)
            end = position + length
            position += 1
            while data[position] & 0x80:  # the timestamp
                position += 1
            delta, position = read_varint(data, position + 1)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            if not position < end <= len(data):
                raise InvalidRecords(f"a record of {length} bytes has other fields")
            yield base_offset + delta, key, value
            position = end
    except IndexError:
        raise InvalidRecords("a record ends before its fields do") from None
    if position != len(data):
        raise InvalidRecords(f"the batch holds more than the {batch.count} records it counts")


def _record_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the length of the record at `position`, and the position of its body.

    The length is -1 if `data` ends within the length field.
    """
    try:
        length, start = read_varint(data, position)
    except IndexError:
        return -1, position
    if length < 0:
        raise InvalidRecords(f"a record says that it has {length} bytes")
    return length, start


def _extended(rest: bytes, missing: int, pieces: Iterator[bytes], batch: RecordBatch) -> bytes:
    """Append the next pieces, at least `missing` bytes, to `rest` and return the result."""
    parts = [rest]
    while missing > 0:
        piece = next(pieces, None)
        if piece is None:
            raise InvalidRecords(f"the batch ends before the {batch.count} records it counts")
        parts.append(piece)
        missing -= len(piece)
    return b"".join(parts)


def _read_record(
    data: bytes, position: int, end: int, batch: RecordBatch, shared_time: int | None
) -> Record:
    timestamp: int
    delta: int
    try:
        timestamp, position = read_varlong(data, position + 1)
        delta, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers: Headers = ()
        if data[position]:
            headers, position = read_headers(data, position, end)
        else:
            position += 1
    except IndexError:
        raise InvalidRecords("a record ends before its fields do") from None
    if position != end:
        raise InvalidRecords(f"a record's fields end {end - position} bytes before the record")
    sequence = batch.base_sequence
    return Record(
        batch.base_offset + delta,
        batch.base_timestamp + timestamp if shared_time is None else shared_time,
        key,
        value,
        headers,
        add_to_sequence(sequence, delta) if sequence >= 0 else NO_SEQUENCE,
    )


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = data[position]
    if length < 0x80:
        position += 1
        length = (length >> 1) ^ -(length & 1)
    else:
        length, position = read_varint(data, position)
    if length < 0:
        return None, position
    after = position + length
    if after > end:
        raise InvalidRecords(f"a field of {length} bytes does not fit into its record")
    return data[position:after], after


def read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    """Return the headers at a position, and the position after them.

    Raises:
        InvalidRecords: they are malformed.
        IndexError: `data` ends within them.
    """
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecords(f"a record cannot have {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecords("a header has no key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), position
