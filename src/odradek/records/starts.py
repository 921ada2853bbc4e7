"""Finds where the records of a batch start, in compiled code with one loop.

The length of a record is at its start, as a zigzag varint, so each start depends on the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.records.errors import CorruptBatch

if TYPE_CHECKING:
    from mypy_extensions import i64


def append_starts(payload: bytes, start: i64, end: i64, count: i64, starts: list[int]) -> None:
    """Append the starts of `count` records that fill the payload from `start` to `end`.

    Raises:
        CorruptBatch: the records do not end at `end`.
    """
    position: i64 = start
    number: i64 = 0
    try:
        while number < count:
            starts.append(position)
            number += 1
            byte: i64 = payload[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
                continue
            following: i64 = payload[position + 1]
            if following < 0x80:  # Nearly all records have less than 8 KB.
                position += 2 + (following << 6 | (byte & 0x7F) >> 1)
            else:
                position = _after_long(payload, position)
            if position > end:
                raise CorruptBatch("a record ends after its batch")
    except IndexError:
        raise CorruptBatch("a record ends after its batch") from None
    if position != end:
        raise CorruptBatch("the records of a batch do not end where it ends")


def _after_long(payload: bytes, start: i64) -> i64:
    """Return the position after a record whose length has three bytes or more."""
    position: i64 = start
    length: i64 = 0
    shift: i64 = 0
    while True:
        byte: i64 = payload[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position + (length >> 1)
        shift += 7
        if shift > 28:
            raise CorruptBatch("a length of more than five bytes")
