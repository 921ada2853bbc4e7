"""Sparse indexes of a segment: `.index` by offset, `.timeindex` by timestamp.

Entries have a fixed size and grow in both fields. Offsets are int32, relative to the segment's
base offset.

    .index      last offset of a batch int32 | position of that batch in the .log int32 .timeindex
    timestamp int64 | last offset of the first batch that has it int32

There is no checksum: an index only gives the position where a search begins, and a doubtful index
is rebuilt from its log. So entries are first kept in memory (`tail`) and written in pieces, at the
latest when the segment is flushed, rolled or closed; no file stays open. The entries around the
last search stay in memory, so that a sequential reader does not read the file.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import ClassVar, Final

from odradek.env.file_system import CREATE, READ_ONLY, FileSystem, write_fully

TAIL_SIZE_MAX: Final = 4096
"""Bytes of entries after which an index is written."""
_BLOCK_ENTRIES: Final = 256
"""A search in the file reads the rest at once when at most this many entries remain."""


class Index:
    """The entries of one index; `file_system` and `path` come with each call that needs them."""

    __slots__ = ("_block", "_block_first", "_last", "stored", "tail")

    ENTRY: ClassVar[Struct]

    def __init__(self, stored: int = 0) -> None:
        self.stored = stored
        """Entries in the file."""
        self.tail = bytearray()
        """Entries after those of the file."""
        self._last: tuple[int, int] | None = None  # the last entry, once it is known
        self._block = b""  # entries of the file that were read last
        self._block_first = 0  # the number of the first of them

    def __len__(self) -> int:
        return self.stored + len(self.tail) // self.ENTRY.size

    def append(self, key: int, value: int) -> None:
        """Add an entry above all others."""
        self._last = (key, value)
        self.tail += self.ENTRY.pack(key, value)

    def write(self, file_system: FileSystem, path: str) -> None:
        """Append the tail to the file, which is created if necessary.

        Raises:
            OSError: the device failed.
        """
        descriptor = file_system.open(path, CREATE)
        try:
            if self.tail:
                position = self.stored * self.ENTRY.size
                write_fully(file_system, descriptor, self.tail, position)
                self.stored = len(self)
                self.tail.clear()
        finally:
            file_system.close(descriptor)

    def entry(self, file_system: FileSystem, path: str, number: int) -> tuple[int, int]:
        """Return the entry of that number, counted from 0."""
        size = self.ENTRY.size
        if number >= self.stored:
            return self._unpack(self.tail, (number - self.stored) * size)
        position = (number - self._block_first) * size
        if 0 <= position < len(self._block):
            return self._unpack(self._block, position)
        descriptor = file_system.open(path, READ_ONLY)
        try:
            return self._unpack(file_system.pread(descriptor, size, number * size), 0)
        finally:
            file_system.close(descriptor)

    def last(self, file_system: FileSystem, path: str) -> tuple[int, int] | None:
        """The last entry."""
        if self._last is None and len(self):
            self._last = self.entry(file_system, path, len(self) - 1)
        return self._last

    def floor(self, file_system: FileSystem, path: str, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`."""
        number = self.count_to(file_system, path, key)
        return self.entry(file_system, path, number - 1) if number else None

    def count_to(self, file_system: FileSystem, path: str, key: int, field: int = 0) -> int:
        """Count the entries whose field 0 or 1 is not above `key`."""
        in_tail = self._count_in(self.tail, key, field)
        if in_tail or not self.stored:
            return self.stored + in_tail
        count = self._count_in(self._block, key, field)
        if not self._is_bracketed(count):
            self._read_block(file_system, path, key, field)
            count = self._count_in(self._block, key, field)
        return self._block_first + count

    def _is_bracketed(self, count: int) -> bool:
        """Whether the block's `count` of entries up to a key determines the count in the file."""
        entries = len(self._block) // self.ENTRY.size
        if count == 0:
            return entries > 0 and self._block_first == 0
        return count < entries or self._block_first + entries == self.stored

    def _read_block(self, file_system: FileSystem, path: str, key: int, field: int) -> None:
        """Read the entries of the file around `key` into memory."""
        size = self.ENTRY.size
        descriptor = file_system.open(path, READ_ONLY)
        try:
            low, high = 0, self.stored
            while high - low > _BLOCK_ENTRIES:
                middle = (low + high) // 2
                entry = self._unpack(file_system.pread(descriptor, size, middle * size), 0)
                if entry[field] <= key:
                    low = middle
                else:
                    high = middle
            high = min(low + _BLOCK_ENTRIES, self.stored)
            self._block = file_system.pread(descriptor, (high - low) * size, low * size)
            self._block_first = low
        finally:
            file_system.close(descriptor)

    def forget_from(self, count: int) -> None:
        """Keep the first `count` entries. The file is not touched."""
        self._last = None
        self._block = b""
        if count >= self.stored:
            del self.tail[(count - self.stored) * self.ENTRY.size :]
        else:
            self.tail.clear()
            self.stored = count

    def truncate(self, file_system: FileSystem, path: str, count: int) -> None:
        """Keep the first `count` entries, in the file too.

        Raises:
            OSError: the device failed.
        """
        was_stored = self.stored
        self.forget_from(count)
        if count >= was_stored:
            return
        descriptor = file_system.open(path, CREATE)
        try:
            file_system.truncate(descriptor, count * self.ENTRY.size)
        finally:
            file_system.close(descriptor)

    def _count_in(self, block: bytes | bytearray, key: int, field: int) -> int:
        unpack = self.ENTRY.unpack_from
        size = self.ENTRY.size
        entries = range(0, len(block) - size + 1, size)
        return bisect_right(entries, key, key=lambda position: unpack(block, position)[field])

    def _unpack(self, block: bytes | bytearray, position: int) -> tuple[int, int]:
        first, second = self.ENTRY.unpack_from(block, position)
        return first, second


class OffsetIndex(Index):
    """Entries: (relative last offset of a batch, position of the batch)."""

    __slots__ = ()
    ENTRY = Struct(">ii")


class TimeIndex(Index):
    """Entries: (timestamp, relative last offset of the first batch that has it)."""

    __slots__ = ()
    ENTRY = Struct(">qi")
