"""Checks that a payload consists of records, without creating record objects.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint (-1: null) | key | value length varint (-1: null) | value
    | header count varint | each: key length, key, value length (-1: null), value

This module checks every batch that a producer sends. Compiled code checks the records in one loop.
Interpreted code takes about 1 µs per record in this loop, so interpreted code has a second method:
if two consecutive records have the same length, `columns` compares the following records all at
once. Varints of one and two bytes are decoded inside the loop, which saves function calls.

Timestamp deltas have at most 63 bits here and lengths have 32 bits. So no calculation overflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.records.batch import HEADER_SIZE, Buffer
from odradek.records.columns import Places, run_length
from odradek.records.compiled import COMPILED
from odradek.records.compression import decompress
from odradek.records.errors import DecompressionLimit, InvalidRecords, RecordsError
from odradek.records.varint import (
    LAST_SHIFT,
    LAST_SHIFT_LONG,
    read_unsigned,
    read_varint,
    read_varlong,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

AT_ONCE_MAX: Final = 1 << 20
"""The default limit of the decompressed records. To decompress and check as many bytes takes about
a millisecond."""
_RUN_MIN: Final = 8
"""For fewer records, a comparison of columns is not faster than the loop."""
_TRIES: Final = 0 if COMPILED else 3
"""After this many comparisons of columns with fewer than `_RUN_MIN` equal records, the rest of the
batch is checked by the loop."""
_NULL: Final = 1
"""The length -1 as a varint."""
_DELTA_MAX: Final = 2**62 - 1
"""`skim` checks larger timestamp deltas. So no number in this module has more than 63 bits."""
_UNSIGNED_MAX: Final = 2**63 - 1


def has_plain_records(
    batch: Buffer,
    codec: int,
    count: int,
    max_delta: int,
    need_keys: bool = False,
    limit_bytes: int = AT_ONCE_MAX,
) -> bool:
    """Return whether a batch holds `count` records in the usual form that producers write.

    True means that the records are complete, that their offset deltas are 0, 1, 2 and so on, and
    that the largest timestamp delta is `max_delta`. With `need_keys`, all records also have keys.
    False means that the batch may be valid or not. `odradek.records.skim` checks such a batch.

    Raises:
        DecompressionLimit: the decompressed records take more than `limit_bytes`.
    """
    if not 0 <= max_delta <= _DELTA_MAX:
        return False
    payload = memoryview(batch)[HEADER_SIZE:]
    try:
        data = decompress(codec, payload, limit_bytes) if codec else bytes(payload)
        return _is_plain(data, count, max_delta << 1, need_keys)
    except DecompressionLimit:
        raise
    except (IndexError, RecordsError):
        return False


def _is_plain(data: bytes, count: i64, latest: i64, need_keys: bool) -> bool:  # noqa: C901
    """See `has_plain_records`. `latest` is `max_delta` before zigzag decoding."""
    position: i64 = 0
    number: i64 = 0
    size: i64 = 0
    byte: i64 = 0
    tries: i64 = _TRIES
    reached = False
    while number < count:
        start = position
        length: i64 = data[position]
        if length < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            length = length & 0x7F | byte << 7
            position += 2
        else:
            length, position = read_unsigned(data, position, LAST_SHIFT)
        end = position + (length >> 1)
        time: i64 = data[position + 1]
        if time < 0x80:
            position += 2
        elif (byte := data[position + 2]) < 0x80:
            time = time & 0x7F | byte << 7
            position += 3
        else:
            time, position = _read_long_time(data, position + 1)
        if time >= latest and not time & 1:
            reached = True
        delta: i64 = data[position]
        if delta < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            delta = delta & 0x7F | byte << 7
            position += 2
        else:
            delta, position = read_unsigned(data, position, LAST_SHIFT)
        if delta != number << 1 or length & 1 or (time > latest and not time & 1):
            return False
        length = data[position]
        if length > 0x7F:
            length, position = read_unsigned(data, position, LAST_SHIFT)
        else:
            position += 1
        if length & 1 and (need_keys or length != _NULL):
            return False
        position += length >> 1
        length = data[position]
        if length < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            length = length & 0x7F | byte << 7
            position += 2
        else:
            length, position = read_unsigned(data, position, LAST_SHIFT)
        position += length >> 1
        position = _after_headers(data, position, end) if data[position] else position + 1
        if position != end or (length & 1 and length != _NULL):
            return False
        number += 1
        if end - start != size:
            size = end - start
        elif tries and count - number >= _RUN_MIN:
            places = _places(data, start, end)
            more, has_latest = run_length(data, places, number, count - number, latest)
            tries -= more < _RUN_MIN
            number += more
            position += more * size
            reached |= has_latest
    return position == len(data) and reached


def _read_long_time(data: bytes, position: i64) -> tuple[i64, i64]:
    time, position = read_unsigned(data, position, LAST_SHIFT_LONG)
    if not 0 <= time <= _UNSIGNED_MAX:
        raise InvalidRecords("a timestamp delta of 64 bits")
    return time, position


def _after_headers(data: bytes, position: i64, end: i64) -> i64:
    headers, position = read_varint(data, position)
    if not 0 <= headers <= end - position:
        raise InvalidRecords(f"a record cannot have {headers} headers")
    while headers > 0:
        headers -= 1
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecords("a header has no key")
        length, position = read_varint(data, position + length)
        if length > 0:
            position += length
    return position


def _places(data: bytes, start: int, end: int) -> Places:
    """Return the positions of the fields of a record that has been read."""
    _, position = read_varint(data, start)
    time_at = position + 1
    _, offset_at = read_varlong(data, time_at)
    _, key_at = read_varint(data, offset_at)
    length, position = read_varint(data, key_at)
    value_at = position + max(length, 0)
    length, position = read_varint(data, value_at)
    return Places(start, time_at, offset_at, key_at, value_at, position + max(length, 0), end)
