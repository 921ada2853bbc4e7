"""Finds the fields of records in compiled code, with one pass over the bytes.

`FieldWriter` writes numbers where Arrow expects them, so no object is created per record. It needs
`librt`, the run-time library of mypyc. Where nothing is compiled, numpy
finds the same fields faster (`positions`, which also describes the layout of records).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i64_le

from odradek.records.errors import CorruptBatch

if TYPE_CHECKING:
    from mypy_extensions import i64

NULL_KEY: Final = 1
NULL_VALUE: Final = 2
NULL_TIMESTAMP: Final = 4
NO_TIMESTAMP: Final = -1
MICROSECONDS: Final = 1000
"""In a millisecond."""
SIGN_BIT_CLEARED: Final = 0x7FFF_FFFF_FFFF_FFFF


class FieldWriter:
    """The fields of the records of some batches in one buffer, as far as their offsets are wanted.

    The numbers are little endian. The buffer has less than 2 GB.
    """

    def __init__(self, payload: bytes, first_offset: int, stop_offset: int) -> None:
        """Records before `first_offset`, and from `stop_offset` on, are left out."""
        self.bounds = BytesWriter()
        """For each record four positions of 32 bits: key start, key end, value start, value end."""
        self.offsets = BytesWriter()
        """An offset of 64 bits for each record."""
        self.timestamps = BytesWriter()
        """Microseconds of 64 bits for each record."""
        self.nulls = BytesWriter()
        """A sum of `NULL_KEY`, `NULL_VALUE` and `NULL_TIMESTAMP` in 64 bits for each record."""
        self.kinds_of_nulls: i64 = 0
        """The bits that any number of `nulls` has."""
        self._payload: bytes = payload
        self._first: i64 = first_offset
        self._stop: i64 = stop_offset

    def append(
        self,
        start: i64,
        end: i64,
        count: i64,
        base_offset: i64,
        timestamp_ms: i64,
        is_append_time: bool,
    ) -> int:
        """Append the wanted ones of `count` records from `start` to `end`, and return their number.

        Raises:
            CorruptBatch: the records do not end at `end`, or a field ends after its record.
            IndexError: a number of a record ends after all records.
        """
        payload = self._payload
        position: i64 = start
        number: i64 = 0
        appended: i64 = 0
        while number < count:
            number += 1
            length, position = _varint(payload, position)
            if length <= 0 or length > end - position:
                raise CorruptBatch("a record ends after its batch")
            record_end: i64 = position + length
            timestamp_delta, position = _varint(payload, position + 1)
            offset, position = _varint(payload, position)
            key_length, key_start = _varint(payload, position)
            key_end: i64 = _after(key_start, key_length, record_end)
            value_length, value_start = _varint(payload, key_end)
            value_end: i64 = _after(value_start, value_length, record_end)
            if value_end >= record_end:
                raise CorruptBatch("a record without a header count")
            position = record_end
            offset += base_offset
            if not self._first <= offset < self._stop:
                continue
            timestamp: i64 = timestamp_ms
            if not is_append_time:
                timestamp += timestamp_delta
            nulls: i64 = NULL_KEY if key_length < 0 else 0
            if value_length < 0:
                nulls |= NULL_VALUE
            if timestamp == NO_TIMESTAMP:
                nulls |= NULL_TIMESTAMP
            self.kinds_of_nulls |= nulls
            write_i64_le(self.bounds, key_start | key_end << 32)
            write_i64_le(self.bounds, value_start | value_end << 32)
            write_i64_le(self.offsets, offset)
            write_i64_le(self.timestamps, timestamp * MICROSECONDS)
            write_i64_le(self.nulls, nulls)
            appended += 1
        if position != end:
            raise CorruptBatch("the records of a batch do not end where it ends")
        return appended


def _after(start: i64, length: i64, end: i64) -> i64:
    """Return the position after a field; a length of -1 means null."""
    if length < -1 or length > end - start:
        raise CorruptBatch("a field ends after its record")
    return start if length < 0 else start + length


def _varint(payload: bytes, position: i64) -> tuple[i64, i64]:
    """Return the zigzag varint at a position, and the position after it."""
    first: i64 = payload[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return _long_varint(payload, position)


def _long_varint(payload: bytes, start: i64) -> tuple[i64, i64]:
    """Return the zigzag varint at a position, and the position after it."""
    position: i64 = start
    value: i64 = 0
    shift: i64 = 0
    while True:
        byte: i64 = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & SIGN_BIT_CLEARED) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise CorruptBatch("varint of more than ten bytes")
