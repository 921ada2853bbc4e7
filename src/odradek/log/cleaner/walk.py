"""Finds keys in the bytes of records, without building a record.

Every record of a log passes here once or twice in each round of cleaning: these loops are what
the speed of compaction depends on. Varints are read in place; of each record only the length,
the key, and whether there is a value are looked at.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint | key | value length varint | value | headers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.log.cleaner.offset_map import KEY_SIZE_MAX, digest
from odradek.log.errors import DamagedFile
from odradek.records.errors import RecordsError
from odradek.records.varint import read_varint

_SHORT_MAX = KEY_SIZE_MAX << 1
"""The length of a key of `KEY_SIZE_MAX` bytes as a varint, which is one byte."""


class Survivors(NamedTuple):
    """The records of a batch that are kept: where they start and end in the bytes."""

    spans: list[tuple[int, int]]
    have_tombstone: bool
    """One of them has no value."""


def keys_of(data: bytes, position: int, end: int, count: int) -> list[bytes]:
    """The keys of `count` records, as the offset map has them; records without a key are left out.

    Raises:
        DamagedFile: there is something else than records, or more or fewer of them.
    """
    keys: list[bytes] = []
    append = keys.append
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                position += 1
                following = position + (byte >> 1)
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2
                    following = position + ((byte & 0x7F | second << 7) >> 1)
                else:
                    length, position = read_varint(data, position)
                    following = position + length
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            byte = data[position]
            if byte <= _SHORT_MAX and not byte & 1:
                append(data[position + 1 : (byte >> 1) + position + 1])
            elif byte != 1:
                unusual, _ = _unusual_key(data, position)
                if unusual is not None:
                    append(unusual)
            position = following
    except (IndexError, RecordsError) as error:
        raise DamagedFile(f"a batch does not hold {count} records: {error}") from None
    _check_end(position, end, count)
    return keys


def survivors(
    data: bytes,
    position: int,
    end: int,
    count: int,
    base_of: Callable[[bytes], int | None],
    base_offset: int,
    drop_tombstones: bool,
) -> Survivors:
    """Which of the `count` records of a batch are kept: the last of each key, and no others.

    `base_of(key)` is the base offset of the last batch with the key. The batch lies wholly in
    what the map knows.

    Raises:
        DamagedFile: there is something else than records, or more or fewer of them.
    """
    spans: list[tuple[int, int] | None] = []
    append = spans.append
    latest: dict[bytes, int] = {}  # keys whose last record is in this batch -> index in `spans`
    tombstones: set[int] = set()  # indexes in `spans`
    try:
        for _ in range(count):
            start = position
            byte = data[position]
            if byte < 0x80:
                position += 1
                following = position + (byte >> 1)
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2
                    following = position + ((byte & 0x7F | second << 7) >> 1)
                else:
                    length, position = read_varint(data, position)
                    following = position + length
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            byte = data[position]
            if byte <= _SHORT_MAX and not byte & 1:
                position += 1
                byte = (byte >> 1) + position
                key = data[position:byte]
                position = byte
            else:
                unusual, position = _unusual_key(data, position)
                if unusual is None:  # it has no place in a compacted log
                    position = following
                    continue
                key = unusual
            found = base_of(key)
            if found is None or found <= base_offset:
                index = len(spans)
                if found is not None:
                    known = latest.get(key)
                    if known is not None:
                        spans[known] = None
                        tombstones.discard(known)
                    latest[key] = index
                if data[position] != 1:
                    append((start, following))
                elif drop_tombstones:
                    append(None)
                else:
                    tombstones.add(index)
                    append((start, following))
            position = following
    except (IndexError, RecordsError) as error:
        raise DamagedFile(f"a batch does not hold {count} records: {error}") from None
    _check_end(position, end, count)
    return Survivors([span for span in spans if span is not None], bool(tombstones))


def _unusual_key(data: bytes, position: int) -> tuple[bytes | None, int]:
    """A key that is null or long, and the position after it."""
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    key = data[position : position + length]
    if len(key) < length:
        raise DamagedFile(f"a key of {length} bytes does not fit into its batch")
    return key if length <= KEY_SIZE_MAX else digest(key), position + length


def _check_end(position: int, end: int, count: int) -> None:
    if position != end:
        raise DamagedFile(f"a batch does not end where its {count} records end")


class Fields(NamedTuple):
    """What the rare cases need of one record."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    """As the offset map has it."""
    is_tombstone: bool
    after_timestamp: int
    """Where the bytes behind the timestamp begin."""


def fields_at(data: bytes, start: int) -> Fields:
    """One record.

    Raises:
        DamagedFile: there is none.
    """
    try:
        length, position = read_varint(data, start)
        end = position + length
        timestamp_delta, after_timestamp = read_varint(data, position + 1)
        offset_delta, position = read_varint(data, after_timestamp)
        size, position = read_varint(data, position)
        key = None
        if size >= 0:
            key = data[position : position + size]
            position += size
            if size > KEY_SIZE_MAX:
                key = digest(key)
        is_tombstone = data[position] == 1
    except (IndexError, RecordsError) as error:
        raise DamagedFile(f"there is no record at byte {start} of a batch: {error}") from None
    if not position < end <= len(data):
        raise DamagedFile(f"a record of {length} bytes does not fit into its batch")
    return Fields(start, end, timestamp_delta, offset_delta, key, is_tombstone, after_timestamp)
