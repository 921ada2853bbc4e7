"""The offset map for compiled code. It is a hash table with an identity of 16 bytes for each key.

A key of up to 15 bytes is its own identity. The identity of a longer key is 120 bits of its XXH3
digest. (Apache Kafka's map has an MD5 digest of every key.) An identity consists of two 64-bit
numbers. Therefore keys can be read from the records, added and looked up without creating Python
objects.

Lookups miss the processor's caches. Therefore `finish` creates an array with a byte for each
offset, and marks, for each key, the offset of its last record. The dirty part of the log is then
filtered by the marks, without reading the keys again. A batch without marks is not even
decompressed.

In interpreted code this module has the same results, but is slower than `DictOffsetMap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import xxhash

from odradek.log.cleaner.offset_map import OffsetMap, Survivors
from odradek.log.errors import DamagedFile
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError
from odradek.records.varint import read_varint

if TYPE_CHECKING:
    from mypy_extensions import i64

_ENTRY_BYTES: Final = 80 + 16 + 16
"""Bytes of an entry, its bucket (average while the table grows), and its marks."""
_MARKS_PER_ENTRY: Final = 16
_BUCKETS_MIN: Final = 1024
_INLINE_KEY_MAX: Final = 15
_DIGEST_TAG: Final = 0xFF
"""The tag of an identity that is a digest. In other identities, the tag is the key's length."""
_MULTIPLIER: Final = 0x1E3779B97F4A7C15
_TOMBSTONE: Final = 1
"""The length -1 as a varint."""


@final
class Entry:
    """The identity of a key (`high`, `low`) and the offset of the key's last record."""

    __slots__ = ("following", "high", "low", "offset")

    def __init__(self, high: i64, low: i64, offset: i64, following: Entry | None) -> None:
        self.high = high
        self.low = low
        self.offset = offset
        self.following = following
        """The next entry of the same bucket."""

    def move_to(self, offset: i64) -> None:
        """Set the offset."""
        self.offset = offset

    def link(self, following: Entry | None) -> None:
        """Set the next entry of the same bucket."""
        self.following = following


class OffsetTable(OffsetMap):
    """The offset map for compiled code. `entries_max` is the same as in `DictOffsetMap`."""

    def __init__(
        self, first_dirty_offset: int, bytes_max: float, entries_max: int | None = None
    ) -> None:
        super().__init__(first_dirty_offset)
        limit = int(bytes_max) // _ENTRY_BYTES
        self._limit: i64 = limit if entries_max is None else min(limit, entries_max)
        self._count: i64 = 0
        self._buckets: list[Entry | None] = [None] * _BUCKETS_MIN
        self._left_out: set[int] = set()
        """The base offsets of the batches of aborted transactions. Their records have no marks, so
        that their keys are looked up if the second pass does not remove these batches."""
        self._marks: bytes | None = None
        """A byte for each offset from the first dirty offset on. The byte is 1 if the record is the
        last of its key. None if there are too many offsets compared to the number of keys."""

    @property
    def utilization(self) -> float:
        """See `OffsetMap`."""
        return int(self._count) / int(self._limit) if self._limit else 1.0

    def add_batch(self, batch: RecordBatch, payload: bytes) -> bool:
        """See `OffsetMap`."""
        try:
            return self._add_batch(payload, batch.count, batch.base_offset, batch.last_offset)
        except (IndexError, RecordsError) as error:
            raise _damaged(batch, error) from None

    def _add_batch(self, data: bytes, count: i64, base_offset: i64, last_offset: i64) -> bool:
        first: i64 = self.first_dirty_offset
        latest: i64 = self.latest_offset
        position: i64 = 0
        is_full = False
        while count > 0:
            count -= 1
            following, position = _length(data, position)
            following += position
            delta, position = read_varint(data, _after_timestamp(data, position))
            length, position = read_varint(data, position)
            offset = base_offset + delta
            if not (delta >= 0 and offset <= last_offset and position + length < following):
                raise IndexError("a record or its offset is out of range")
            if length >= 0 and offset >= first:
                if self._count >= self._limit:
                    is_full = True
                    break
                high, low = identity(data, position, length)
                self._put(high, low, offset)
                latest = offset
            position = following
        else:
            if position != len(data):
                raise IndexError("they end elsewhere")
        self.latest_offset = latest
        if not is_full:
            self.advance_to(last_offset)
        return not is_full

    def leave_out(self, batch: RecordBatch) -> None:
        """See `OffsetMap`."""
        super().leave_out(batch)
        self._left_out.add(batch.base_offset)

    def _put(self, high: i64, low: i64, offset: i64) -> None:
        buckets = self._buckets
        size: i64 = len(buckets)
        slot = _bucket(high, low, size)
        entry = buckets[slot]
        while entry is not None:
            if entry.high == high and entry.low == low:
                entry.move_to(offset)
                return
            entry = entry.following
        buckets[slot] = Entry(high, low, offset, buckets[slot])
        self._count += 1
        if self._count > size:
            self._grow(size * 2)

    def _grow(self, size: i64) -> None:
        grown: list[Entry | None] = [None] * size
        for entry in self._buckets:
            while entry is not None:
                following = entry.following
                slot = _bucket(entry.high, entry.low, size)
                entry.link(grown[slot])
                grown[slot] = entry
                entry = following
        self._buckets = grown

    def _offset_of(self, high: i64, low: i64) -> i64:
        """Return the offset of the last record of a key; -1 if the map does not have the key."""
        buckets = self._buckets
        entry = buckets[_bucket(high, low, len(buckets))]
        while entry is not None:
            if entry.high == high and entry.low == low:
                return entry.offset
            entry = entry.following
        return -1

    def finish(self) -> None:
        """See `OffsetMap`."""
        first: i64 = self.first_dirty_offset
        size = self.latest_offset + 1 - self.first_dirty_offset
        unused = (self._limit - self._count) * _ENTRY_BYTES
        if not 0 < size <= self._count * _MARKS_PER_ENTRY + unused:
            return
        marks = bytearray(size)
        for entry in self._buckets:
            while entry is not None:
                marks[entry.offset - first] = 1
                entry = entry.following
        self._marks = bytes(marks)

    def has_survivors(self, batch: RecordBatch) -> bool:
        """See `OffsetMap`."""
        flags = self._flags_of(batch)
        return flags is None or 1 in flags

    def _flags_of(self, batch: RecordBatch) -> bytes | None:
        """Return the marks of the offsets of a batch; None if each key must be looked up."""
        marks = self._marks
        start = batch.base_offset - self.first_dirty_offset
        if (
            marks is None
            or start < 0
            or batch.last_offset > self.latest_offset
            or batch.base_offset in self._left_out
        ):
            return None
        return marks[start : start + batch.last_offset_delta + 1]

    def survivors(self, batch: RecordBatch, payload: bytes, drop_tombstones: bool) -> Survivors:
        """See `OffsetMap`."""
        flags = self._flags_of(batch)
        try:
            if flags is not None:
                return _marked(payload, batch.count, flags, drop_tombstones)
            return self._looked_up(payload, batch.count, batch.base_offset, drop_tombstones)
        except (IndexError, RecordsError) as error:
            raise _damaged(batch, error) from None

    def _looked_up(
        self, data: bytes, count: i64, base_offset: i64, drop_tombstones: bool
    ) -> Survivors:
        latest: i64 = self.latest_offset
        spans: list[tuple[int, int]] = []
        have_tombstone = False
        position: i64 = 0
        while count > 0:
            count -= 1
            start = position
            following, position = _length(data, position)
            following += position
            delta, position = read_varint(data, _after_timestamp(data, position))
            length, position = read_varint(data, position)
            offset = base_offset + delta
            is_kept = offset > latest
            if not is_kept and length >= 0:
                high, low = identity(data, position, length)
                is_kept = self._offset_of(high, low) <= offset
            if is_kept:
                if length > 0:
                    position += length
                is_tombstone = data[position] == _TOMBSTONE
                if not (is_tombstone and drop_tombstones and offset <= latest):
                    spans.append((start, following))
                    have_tombstone = have_tombstone or is_tombstone
            position = following
        if position != len(data):
            raise IndexError("they end elsewhere")
        return Survivors(spans, have_tombstone)


def _marked(data: bytes, count: i64, flags: bytes, drop_tombstones: bool) -> Survivors:
    """Return the records whose offsets are marked.

    `_add_batch` has read and checked the same records before. Therefore this function checks less.
    """
    spans: list[tuple[int, int]] = []
    have_tombstone = False
    position: i64 = 0
    while count > 0:
        count -= 1
        start = position
        following, position = _length(data, position)
        following += position
        delta, position = read_varint(data, _after_timestamp(data, position))
        if flags[delta]:
            length, position = read_varint(data, position)
            is_tombstone = data[position + length] == _TOMBSTONE
            if not (is_tombstone and drop_tombstones):
                spans.append((start, following))
                have_tombstone = have_tombstone or is_tombstone
        position = following
    if position != len(data):
        raise IndexError("they end elsewhere")
    return Survivors(spans, have_tombstone)


def identity(data: bytes, start: i64, length: i64) -> tuple[i64, i64]:
    """Return the identity of the key of `length` bytes at `start`."""
    tag: i64 = length
    if length > _INLINE_KEY_MAX:
        data = xxhash.xxh3_128_digest(data[start : start + length])
        tag, start, length = _DIGEST_TAG, 0, _INLINE_KEY_MAX
    high: i64 = 0
    low: i64 = 0
    end = start + length
    middle = start + 8 if length > 8 else end
    while start < middle:
        high = high << 8 | data[start]
        start += 1
    while start < end:
        low = low << 8 | data[start]
        start += 1
    return high, low << 8 | tag


def _bucket(high: i64, low: i64, size: i64) -> i64:
    """Return the number of the bucket of an identity.

    `size` is the number of buckets, which is a power of two and at most 2^31.
    """
    mixed = (high ^ low * _MULTIPLIER) * _MULTIPLIER
    mixed = (mixed ^ mixed >> 32) * _MULTIPLIER
    return mixed >> 32 & (size - 1)


def _length(data: bytes, position: i64) -> tuple[i64, i64]:
    """Return the length of a record, and the position of its attributes."""
    byte: i64 = data[position]
    if byte < 0x80:
        return byte >> 1, position + 1
    high: i64 = data[position + 1]
    if high < 0x80:
        return (byte & 0x7F | high << 7) >> 1, position + 2
    length, position = read_varint(data, position)
    if length < 0:
        raise IndexError("a record has a negative length")
    return length, position


def _after_timestamp(data: bytes, position: i64) -> i64:
    """Return the position of the offset delta. `position` is the position of the attributes."""
    position += 1
    while data[position] > 0x7F:
        position += 1
    return position + 1


def _damaged(batch: RecordBatch, error: Exception) -> DamagedFile:
    return DamagedFile(
        f"the batch at offset {batch.base_offset} does not hold {batch.count} records: {error}"
    )
