"""Finds keys in the bytes of records, without creating record objects.

Each round of cleaning reads every record here once or twice. Therefore the speed of compaction
depends on this module. Varints are decoded inside the loop. Only the length of a record and its key
are decoded, and the position of the value's length is returned.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint | key | value length varint | value | headers

In interpreted code, records of the same shape are processed together. In these records, the key and
the fields before the key have the same positions and lengths (see `_same_shape`). When two
consecutive records have the same length, `_same_shape` counts how many of the following records
have the same shape. For each byte position that matters, it compares the bytes of all these records
in one operation. Then the keys of these records are read without decoding varints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.log.cleaner.offset_map import KEY_SIZE_MAX, Survivors, digest
from odradek.log.errors import DamagedFile
from odradek.records.batch import RecordBatch
from odradek.records.compiled import COMPILED
from odradek.records.errors import RecordsError
from odradek.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

_SHORT_MAX: Final = KEY_SIZE_MAX << 1
"""The length of a key of `KEY_SIZE_MAX` bytes as a varint, which is one byte."""
_TOMBSTONE: Final = 1
"""The length -1 as a varint."""
_RUN_MIN: Final = 16
"""For fewer records, the search for a shape costs more time than it saves."""
_TRIES: Final = 0 if COMPILED else 3
"""Maximum number of searches in a batch that find fewer than `_RUN_MIN` records."""
_CONTINUES: Final = bytes(byte >> 7 for byte in range(256))
"""Maps a byte of a varint to 1 if another byte follows it, else to 0."""


class Walked(NamedTuple):
    """The records of a batch. The lists have one item for each record."""

    keys: list[bytes | None]
    """The keys in the form in which the offset map stores them."""
    starts: list[int]
    """The position at which each record begins. A record ends where the next record begins."""
    tails: list[int]
    """The position of the length of each value. It is undefined for records without a key."""
    null_keys: int
    """The number of keys that are None."""


def walk(data: bytes, count: int) -> Walked:
    """Return the positions and keys of the `count` records in `data`.

    Raises:
        DamagedFile: `data` does not consist of exactly `count` valid records.
    """
    keys: list[bytes | None] = []
    starts: list[int] = []
    tails: list[int] = []
    try:
        null_keys = _walk(data, count, keys, starts, tails)
    except (IndexError, RecordsError) as error:
        raise DamagedFile(f"a batch does not hold {count} records: {error}") from None
    return Walked(keys, starts, tails, null_keys)


def _walk(
    data: bytes, count: i64, keys: list[bytes | None], starts: list[int], tails: list[int]
) -> i64:
    """Fill the lists. Return the number of keys that are None."""
    position: i64 = 0
    size: i64 = 0
    tries: i64 = _TRIES
    null_keys: i64 = 0
    while count > 0:
        count -= 1
        start = position
        starts.append(start)
        byte: i64 = data[position]
        if byte < 0x80:
            position += 1
            following = position + (byte >> 1)
        else:
            high: i64 = data[position + 1]
            if high < 0x80:
                position += 2
                following = position + ((byte & 0x7F | high << 7) >> 1)
            else:
                length, position = read_varint(data, position)
                following = position + length
        timestamp_at = position = position + 1
        while data[position] > 0x7F:
            position += 1
        position += 1
        while data[position] > 0x7F:
            position += 1
        key_at = position = position + 1
        byte = data[position]
        if byte <= _SHORT_MAX and not byte & 1:
            position += 1 + (byte >> 1)
            keys.append(data[key_at + 1 : position])
        else:
            key, position = _unusual_key(data, position)
            keys.append(key)
            if key is None:
                null_keys += 1
        tails.append(position)
        if following - start != size:
            size = following - start
        elif count > _RUN_MIN and tries and byte <= _SHORT_MAX:
            shape = _Shape(size, timestamp_at - start, key_at - start, position - start)
            more = _same_shape(data, start, shape, count)
            tries -= more < _RUN_MIN
            key_end = key_at + 1 + (byte >> 1)
            if not byte & 1:
                last = following + more * size
                starts += range(following, last, size)
                tails += range(position + size, position + 1 + more * size, size)
                between = key_end - key_at - 1
                keys += [data[at : at + between] for at in range(key_at + 1 + size, last, size)]
                following = last
                count -= more
        position = following
    if position != len(data):
        raise DamagedFile("a batch does not end where its records end")
    return null_keys


class _Shape(NamedTuple):
    """The size of a record, and the positions of fields relative to its start."""

    size: int
    timestamp_at: int
    key_at: int
    tail: int


def _same_shape(data: bytes, start: int, shape: _Shape, count: int) -> int:
    """Count the following records, up to `count`, that have the shape of the record at `start`.

    Records have the same shape if these bytes are equal: the length of the record, the first byte
    of the key's length, and the first byte of the value's length. In addition, the varints of their
    timestamp deltas and offset deltas must have the same sizes.
    """
    size, timestamp_at, key_at, tail = shape
    end = start + (count + 1) * size
    same = min(count, (len(data) - start) // size - 1)
    for column in (*range(timestamp_at - 1), key_at, tail):
        if column < size:
            found = data[start + column : end : size]
            same = min(same, len(found) - len(found.lstrip(found[:1])) - 1)
    for column in range(timestamp_at, key_at):
        found = data[start + column : end : size].translate(_CONTINUES)
        same = min(same, len(found) - len(found.lstrip(found[:1])) - 1)
    return max(0, same)


def _unusual_key(data: bytes, position: i64) -> tuple[bytes | None, i64]:
    """Return a key of any length in the form of the offset map, and the position after the key."""
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    key = data[position : position + length]
    if len(key) < length:
        raise DamagedFile(f"a key of {length} bytes does not fit into its batch")
    return key if length <= KEY_SIZE_MAX else digest(key), position + length


def survivors(
    data: bytes,
    count: int,
    base_of: Callable[[bytes | None], int | None],
    base_offset: int,
    drop_tombstones: bool,
) -> Survivors:
    """Return the records of a batch that are kept. They are the last records of their keys.

    `base_of(key)` returns the base offset of the last batch with this key; None if the map does not
    have the key. The batch must end at or before the map's `latest_offset`.

    Raises:
        DamagedFile: `data` does not consist of exactly `count` valid records.
    """
    keys, starts, tails, _ = walk(data, count)
    kept: dict[int, bool] = {}  # number of a record -> whether it is a tombstone
    latest: dict[bytes | None, int] = {}  # keys whose last record is in this batch
    for number, found in enumerate(map(base_of, keys)):
        if found is not None and found > base_offset:
            continue
        if found is not None:
            kept.pop(latest.get(keys[number], -1), None)
            latest[keys[number]] = number
        elif keys[number] is None:
            continue  # a compacted log keeps no record without a key
        is_tombstone = data[tails[number]] == _TOMBSTONE
        if not (is_tombstone and drop_tombstones):
            kept[number] = is_tombstone
    starts.append(len(data))
    return Survivors([(starts[number], starts[number + 1]) for number in kept], any(kept.values()))


class Fields(NamedTuple):
    """The fields of one record, for cases that are rare."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    """The key in the form in which the offset map stores it."""
    is_tombstone: bool
    after_timestamp: int
    """The position after the timestamp."""


def fields_at(data: bytes, start: int) -> Fields:
    """Return the fields of the record at `start`.

    Raises:
        DamagedFile: there is no valid record.
    """
    try:
        length, position = read_varint(data, start)
        end = position + length
        timestamp_delta, after_timestamp = read_varlong(data, position + 1)
        offset_delta, position = read_varint(data, after_timestamp)
        key, position = _unusual_key(data, position)
        is_tombstone = data[position] == _TOMBSTONE
    except (IndexError, RecordsError) as error:
        raise DamagedFile(f"there is no record at byte {start} of a batch: {error}") from None
    if not position < end <= len(data):
        raise DamagedFile(f"a record of {length} bytes does not fit into its batch")
    return Fields(start, end, timestamp_delta, offset_delta, key, is_tombstone, after_timestamp)


def fields_of(batch: RecordBatch, payload: bytes) -> list[Fields]:
    """Return the fields of all records of a batch.

    Raises:
        DamagedFile: `payload` does not hold the records of the batch.
    """
    found = []
    position = 0
    for _ in range(batch.count):
        fields = fields_at(payload, position)
        found.append(fields)
        position = fields.end
    if position != len(payload):
        raise DamagedFile(f"a batch does not end where its {batch.count} records end")
    return found


def survivors_of(kept: Iterable[Fields]) -> Survivors:
    """Return `Survivors` of the given records."""
    fields = list(kept)
    return Survivors(
        [(each.start, each.end) for each in fields], any(each.is_tombstone for each in fields)
    )
