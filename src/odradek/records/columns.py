"""Compares records of the same layout.

Records of the same length have equal distances in the buffer. A column consists of the bytes at the
same position in each of these records, and is one slice of the buffer. One comparison checks a
column of hundreds of records. This is faster than a loop over the records in interpreted code.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from odradek.records.varint import read_varint

_CONTINUES = bytes(byte >> 7 for byte in range(256))
"""Maps a byte of a varint to 1 if another byte follows it, else to 0."""
_CONTINUES_NOT = _CONTINUES[:1]
_BYTES = bytes(range(256))
_ODD = _BYTES[1::2]
"""All possible first bytes of the varints of negative numbers."""
_OFFSETS_OF_ONE_BYTE = 64
_DIGIT = 128


class Places(NamedTuple):
    """Positions of the fields of a record in the buffer."""

    start: int
    time_at: int
    offset_at: int
    key_at: int
    value_at: int
    headers_at: int
    end: int


def run_length(
    data: bytes, places: Places, number: int, count: int, latest: int
) -> tuple[int, bool]:
    """Count the records that follow the record at `places` and have the same layout.

    The record after `places` has the given `number`, counted from 0. At most `count` records are
    counted. The offset delta of each counted record is equal to its number, and its timestamp delta
    is not above `latest`. `latest` is the unsigned number before zigzag decoding. Return the count,
    and whether one of the counted records has the timestamp delta `latest`. The count may be too
    low.

    Raises:
        IndexError: the headers end after the end of `data`.
        RecordsError: a number is malformed.
    """
    size = places.end - places.start
    width = places.key_at - places.offset_at
    count = min(count, _OFFSETS_OF_ONE_BYTE * _DIGIT ** (width - 1) - number)
    count = min(count, (len(data) - places.end) // size)
    for column in _columns_of_lengths(data, places):
        found = data[column + size : places.end + count * size : size]
        wanted = data[column : column + 1]
        if found != wanted * count:
            count = len(found) - len(found.lstrip(wanted))
    times = []
    for column in range(places.time_at, places.offset_at):
        found = data[column + size : places.end + count * size : size]
        flag = _CONTINUES[data[column] : data[column] + 1]
        if flag == _CONTINUES_NOT and found.isascii():
            pass  # the usual case: each timestamp delta has one byte
        elif (more := found.translate(_CONTINUES)) != flag * count:
            count = len(more) - len(more.lstrip(flag))
        times.append(found)
    if count <= 0:
        return 0, False
    for digit in range(width):
        column = places.offset_at + digit
        found = data[column + size : places.end + count * size : size]
        if found != _offset_column(digit, digit + 1 < width, number, count):
            return 0, False
    return _up_to_latest([column[:count] for column in times], latest, count)


def _columns_of_lengths(data: bytes, places: Places) -> list[int]:
    """Return the positions of the bytes that encode lengths, which are equal in the same layout."""
    columns = [*range(places.start, places.time_at - 1)]
    for at in (places.key_at, places.value_at):
        _, after = read_varint(data, at)
        columns += range(at, after)
    headers, position = read_varint(data, places.headers_at)
    columns += range(places.headers_at, position)
    for _ in range(2 * headers):  # each header has a key and a value
        length, after = read_varint(data, position)
        columns += range(position, after)
        position = after + max(length, 0)
    return columns


def _offset_column(digit: int, more: bool, first: int, count: int) -> bytes:
    """Return the byte at `digit` of the varints of `first`, `first` + 1 and so on.

    `more` says whether another byte follows this byte in the varints.
    """
    cycle = _cycle(digit, more)
    begin = first % len(cycle)
    if begin + count > len(cycle):
        cycle *= 2 + count // len(cycle)
    return cycle[begin : begin + count]


@cache
def _cycle(digit: int, more: bool) -> bytes:
    """Return the byte at `digit` of the varints of 0, 1, 2 and so on, until the bytes repeat."""
    flag = 0x80 if more else 0
    if digit == 0:
        return bytes(flag | byte for byte in range(0, _DIGIT, 2))
    repeated = _OFFSETS_OF_ONE_BYTE * _DIGIT ** (digit - 1)
    return b"".join(bytes([flag | byte]) * repeated for byte in range(_DIGIT))


def _up_to_latest(columns: list[bytes], latest: int, count: int) -> tuple[int, bool]:
    """Return `count`, and whether one of the numbers equals `latest`.

    The count is 0 if a number may be above `latest`. `columns` has the bytes of the numbers, least
    significant bytes first. Each byte must not exceed the byte of `latest`. If a byte equals the
    byte of `latest`, the lower bytes of this and of all following numbers are compared too. To
    compare all following numbers is stricter than necessary, but timestamps mostly grow.
    """
    digits = [latest >> 7 * place & 0x7F for place in range(len(columns))]
    if latest >> 7 * len(columns):
        return count, False
    first = 0
    for place in reversed(range(len(columns))):
        flag = columns[place][0] & 0x80
        allowed = _BYTES[flag : flag + digits[place] + 1]
        rest = columns[place][first:]
        if rest.translate(None, allowed if place else allowed + _ODD):
            return 0, False
        at = rest.find(flag | digits[place])
        if at < 0:
            return count, False
        first += at
    found = [column[first] & 0x7F for column in columns]
    return (count, True) if found == digits else (0, False)
