"""The sparse indexes of a segment: the offset index `.index` and the time index `.timeindex`.

`odradek.records.segment_files` has the format of the entries. Each field of an entry is above the same
field of the previous entry.

The files have no checksum. An index only gives the position at which a search begins, and recovery
rebuilds an index from the `.log`. Therefore new entries are first stored in memory (`tail`). They
are written in pieces, at the latest when the segment is rolled. The files do not stay open. The
entries around the last search stay in memory, so that a sequential reader does not read the file.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

from odradek.env.file_system import CREATE, READ_ONLY, FileSystem, write_fully
from odradek.records.segment_files import OFFSET_ENTRY, TIME_ENTRY

TAIL_SIZE_MAX: Final = 4096
"""The new entries of an index are written when they have this many bytes."""
_BLOCK_ENTRIES: Final = 256
"""When at most this many entries remain, a search in the file reads all of them at once."""


class Index:
    """The entries of one index. The methods that use the file need `file_system` and `path`."""

    __slots__ = ("_block", "_block_first", "known_last", "stored", "tail")

    ENTRY: ClassVar[Struct]

    def __init__(self, stored: int = 0) -> None:
        self.stored = stored
        """The number of entries in the file."""
        self.tail = bytearray()
        """The entries that are not in the file yet."""
        self.known_last: tuple[int, int] | None = None
        """The last entry; None if there is none, or if it must be read from the file."""
        self._block = b""  # entries of the file that were read last
        self._block_first = 0  # the number of the first of them

    def __len__(self) -> int:
        return self.stored + len(self.tail) // self.ENTRY.size

    def append(self, key: int, value: int) -> None:
        """Add an entry. Each field must be above the same field of the last entry."""
        self.known_last = (key, value)
        self.tail += self.ENTRY.pack(key, value)

    def write(self, file_system: FileSystem, path: str) -> None:
        """Append the tail to the file. Create the file if necessary.

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
        """Return the entry with this number, counted from 0."""
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
        """Return the last entry; None if there is none."""
        if self.known_last is None and len(self):
            self.known_last = self.entry(file_system, path, len(self) - 1)
        return self.known_last

    def floor(self, file_system: FileSystem, path: str, key: int) -> tuple[int, int] | None:
        """Return the last entry whose key is not above `key`; None if there is none."""
        number = self.count_to(file_system, path, key)
        return self.entry(file_system, path, number - 1) if number else None

    def count_to(self, file_system: FileSystem, path: str, key: int, field: int = 0) -> int:
        """Count the entries in which the given field (0 or 1) is not above `key`."""
        in_tail = self._count_in(self.tail, key, field)
        if in_tail or not self.stored:
            return self.stored + in_tail
        count = self._count_in(self._block, key, field)
        if not self._is_bracketed(count):
            self._read_block(file_system, path, key, field)
            count = self._count_in(self._block, key, field)
        return self._block_first + count

    def _is_bracketed(self, count: int) -> bool:
        """Return whether `count` in the block determines the count in the whole file.

        `count` is the number of entries of the block that are not above a key.
        """
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
        """Keep only the first `count` entries. The file is not changed."""
        self.known_last = None
        self._block = b""
        if count >= self.stored:
            del self.tail[(count - self.stored) * self.ENTRY.size :]
        else:
            self.tail.clear()
            self.stored = count

    def truncate(self, file_system: FileSystem, path: str, count: int) -> None:
        """Keep only the first `count` entries, also in the file.

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
        """Count the entries of a block in which the field is not above `key`."""
        unpack = self.ENTRY.unpack_from
        size = self.ENTRY.size
        low, high = 0, len(block) // size
        if not high or unpack(block, 0)[field] > key:  # often: the tail has newer entries
            return 0
        while low < high:
            middle = (low + high) // 2
            if unpack(block, middle * size)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _unpack(self, block: bytes | bytearray, position: int) -> tuple[int, int]:
        first, second = self.ENTRY.unpack_from(block, position)
        return first, second


class OffsetIndex(Index):
    """An entry has the relative last offset of a batch, and the position of the batch."""

    __slots__ = ()
    ENTRY = OFFSET_ENTRY


class TimeIndex(Index):
    """An entry has a timestamp and a relative offset.

    The offset is the last offset of the first batch that has this timestamp.
    """

    __slots__ = ()
    ENTRY = TIME_ENTRY
