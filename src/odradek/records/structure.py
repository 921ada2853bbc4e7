"""Whether a payload is made of records, found out without making any.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint (-1: null) | key | value length varint (-1: null) | value
    | header count varint | each: key length, key, value length (-1: null), value

Every batch that a producer sends passes here, so a varint is read only where it must be.
Records are often of one shape: equally long, with keys and values of one length. Where two in a
row are equally long, `columns` compares those that follow all at once; others are read one by
one, in a loop without calls.
"""

from __future__ import annotations

from odradek.records.batch import HEADER_SIZE, Buffer
from odradek.records.columns import Places, run_length
from odradek.records.compression import decompress
from odradek.records.errors import InvalidRecords, RecordsError
from odradek.records.varint import read_varint

AT_ONCE_MAX = 4 << 20
"""Records that take more, decompressed, are left to `skim`, which needs less memory."""
_RUN_MIN = 8
"""With fewer records left, or found, it does not pay to compare columns."""
_TRIES = 3
"""So often in a batch are two equally long records taken for a sign of more."""
_NULL = 1
"""The length -1 as a varint."""


def has_plain_records(
    batch: Buffer, codec: int, count: int, max_delta: int, need_keys: bool = False
) -> bool:
    """Whether a batch holds `count` records as producers write them.

    They are whole, their offsets are 0, 1, 2 and so on, the largest timestamp is `max_delta`
    after the base timestamp, and if `need_keys`, all have keys. False is no verdict: what is
    unusual is for `odradek.records.skim` to judge.
    """
    payload = memoryview(batch)[HEADER_SIZE:]
    try:
        data = decompress(codec, payload, AT_ONCE_MAX) if codec else bytes(payload)
        return max_delta >= 0 and _is_plain(data, count, max_delta << 1, need_keys)
    except (IndexError, RecordsError):
        return False


def _is_plain(data: bytes, count: int, latest: int, need_keys: bool) -> bool:  # noqa: C901  (no calls)
    """See above; `latest` is `max_delta` as a varint has it, doubled. Raises what is caught there."""
    position = number = size = 0
    tries = _TRIES
    reached = False
    while number < count:
        start = position
        if (length := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            length = length & 0x7F | byte << 7
            position += 2
        else:
            length, position = _read_unsigned(data, position)
        time_at = position + 1
        end = position + (length >> 1)
        if (time := data[time_at]) < 0x80:
            delta_at = position + 2
        elif (byte := data[position + 2]) < 0x80:
            time = time & 0x7F | byte << 7
            delta_at = position + 3
        else:
            time, delta_at = _read_unsigned(data, time_at)
        if time >= latest and not time & 1:
            reached = True
            if time > latest:
                return False
        if (delta := data[delta_at]) < 0x80:
            key_at = delta_at + 1
        elif (byte := data[delta_at + 1]) < 0x80:
            delta = delta & 0x7F | byte << 7
            key_at = delta_at + 2
        else:
            delta, key_at = _read_unsigned(data, delta_at)
        if delta != number << 1 or length & 1:
            return False
        if (length := data[key_at]) > 0x7F:
            length, value_at = _read_unsigned(data, key_at)
            value_at += length >> 1
        else:
            value_at = key_at + 1 + (length >> 1)
        if length & 1 and (need_keys or length != _NULL):
            return False
        if (length := data[value_at]) < 0x80:
            headers_at = value_at + 1 + (length >> 1)
        elif (byte := data[value_at + 1]) < 0x80:
            length = length & 0x7F | byte << 7
            headers_at = value_at + 2 + (length >> 1)
        else:
            length, headers_at = _read_unsigned(data, value_at)
            headers_at += length >> 1
        if length & 1 and length != _NULL:
            return False
        position = _after_headers(data, headers_at, end) if data[headers_at] else headers_at + 1
        if position != end:
            return False
        number += 1
        if end - start != size:
            size = end - start
        elif tries and count - number >= _RUN_MIN:
            places = Places(start, time_at, delta_at, key_at, value_at, headers_at, end)
            more, has_latest = run_length(data, places, number, count - number, latest)
            tries -= more < _RUN_MIN
            number += more
            position += more * size
            reached |= has_latest
    return position == len(data) and reached


def _read_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """A number as the varint has it, without zigzag: doubled, if not negative."""
    first, second, third = data[position], data[position + 1], data[position + 2]
    if first > 0x7F and second > 0x7F and third < 0x80:
        return first & 0x7F | (second & 0x7F) << 7 | third << 14, position + 3
    value, position = read_varint(data, position)
    return (value << 1) ^ (value >> 63), position


def _after_headers(data: bytes, position: int, end: int) -> int:
    headers, position = read_varint(data, position)
    if not 0 <= headers <= end - position:
        raise InvalidRecords(f"a record cannot have {headers} headers")
    for _ in range(headers):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecords("a header has no key")
        length, position = read_varint(data, position + length)
        position += max(length, 0)
    return position
