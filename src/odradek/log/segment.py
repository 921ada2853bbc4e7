"""One segment of a log: a `.log` file of batches, its indexes, and what is known of them.

A segment knows its size and opens its file when it is first used; the pool may close it again.
Only the active (newest) segment grows. Its index entries point to batches about every
`index.interval.bytes`; a search goes from the entry below the wanted offset or time through the
headers of the batches behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.env.file_system import CREATE, FileStatus, FileSystem
from odradek.log import names
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DamagedFile
from odradek.log.index import Index, OffsetIndex, TimeIndex
from odradek.log.scan import BatchAt, read_header, scan_batches
from odradek.log.storage import Storage
from odradek.log.transaction_index import AbortedTransaction, read_aborted

OFFSET_DELTA_MAX = 2**31 - 1
UNKNOWN = -2
"""Not read from the files yet."""


class Segment:
    """See the module. Attributes are read and written by the log that owns the segment."""

    __slots__ = (
        "aborted",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "roll_timestamp",
        "size",
        "storage",
        "suffix",
        "time_index",
    )

    def __init__(
        self, storage: Storage, directory: str, base_offset: int, size: int, created_ms: int
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        """Bytes of the `.log` file that hold batches."""
        self.created_ms = created_ms
        """When it became the active segment; used where records have no timestamps."""
        self.suffix = ""
        """`.deleted` when it is on its way out."""
        self.file: OpenFile | None = None
        """The open `.log` file; the pool sets it to None at will."""
        self.offset_index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        self.aborted: list[AbortedTransaction] | None = None
        """The transaction index, once it was read."""
        self.bytes_since_index = 0
        self.first_timestamp = UNKNOWN
        """The max timestamp of the first batch: the segment's age counts from it."""
        self.max_timestamp = UNKNOWN
        self.max_timestamp_offset = base_offset
        """The last offset of the first batch that has the max timestamp."""
        self.roll_timestamp = UNKNOWN
        """A batch with a later timestamp goes to a new segment (set by the log)."""

    # -- files --------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        """The path of one of its files, `names.LOG` and so on."""
        return f"{self.directory}/{self.base_offset:020d}{kind}{self.suffix}"

    def open_file(self) -> OpenFile:
        """Its `.log` file.

        Raises:
            OSError: it cannot be opened.
        """
        return self.storage.descriptors.open(self, self.path(names.LOG), CREATE)

    def close_file(self) -> None:
        """Let go of the `.log` file."""
        self.storage.descriptors.release(self)

    def write_indexes(self) -> None:
        """Put index entries that are only in memory into the files, which exist afterwards.

        Raises:
            OSError: the device failed.
        """
        file_system = self.storage.file_system
        offsets, times = self.indexes()
        offsets.write(file_system, self.path(names.OFFSET_INDEX))
        times.write(file_system, self.path(names.TIME_INDEX))

    def finish_indexes(self) -> None:
        """Add the entry that closed segments have, the largest timestamp, and write all.

        Raises:
            OSError: the device failed.
        """
        self.load_max_timestamp()
        self.add_time_entry()
        self.write_indexes()

    def trim(self) -> None:
        """Give back what was preallocated of the `.log` file and not used.

        Raises:
            OSError: the device failed.
        """
        file = self.file or self.open_file()
        self.storage.file_system.truncate(file.descriptor, self.size)

    def rename(self, suffix: str) -> None:
        """Change the suffix of all its files.

        Raises:
            OSError: the device failed.
        """
        file_system = self.storage.file_system
        for kind in names.SEGMENT_KINDS:
            source = self.path(kind)
            if kind == names.LOG or file_system.status(source) is not None:
                target = source.removesuffix(self.suffix) + suffix
                file_system.rename(source, target)
        self.suffix = suffix

    def status(self) -> FileStatus | None:
        """What the file system says of the `.log` file."""
        return self.storage.file_system.status(self.path(names.LOG))

    # -- indexes ------------------------------------------------------------------------------

    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both sparse indexes, as far as they are known in their files or in memory."""
        if self.offset_index is None or self.time_index is None:
            self.offset_index = OffsetIndex(self._stored(names.OFFSET_INDEX, OffsetIndex))
            self.time_index = TimeIndex(self._stored(names.TIME_INDEX, TimeIndex))
        return self.offset_index, self.time_index

    def _stored(self, kind: str, index: type[Index]) -> int:
        status = self.storage.file_system.status(self.path(kind))
        return 0 if status is None else status.size // index.ENTRY.size

    def forget_indexes(self) -> None:
        """Let go of what is known of the indexes, which are as they are in their files."""
        self.offset_index = self.time_index = None

    def add_index_entries(self, last_offset: int, position: int, tail_max: int) -> None:
        """A batch at `position` is far enough from the last one with an entry."""
        offsets, _ = self.indexes()
        offsets.append(last_offset - self.base_offset, position)
        self.add_time_entry()
        if len(offsets.tail) >= tail_max:
            self.write_indexes()

    def add_time_entry(self) -> None:
        """Note the largest timestamp so far, if the time index does not have it."""
        _, times = self.indexes()
        last = times.last(self.storage.file_system, self.path(names.TIME_INDEX))
        if self.max_timestamp > (-1 if last is None else last[0]):
            times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def load_max_timestamp(self) -> int:
        """The largest timestamp of the segment; -1 if no record has one."""
        if self.max_timestamp == UNKNOWN:
            _, times = self.indexes()
            last = times.last(self.storage.reads, self.path(names.TIME_INDEX))
            self.max_timestamp = -1 if last is None else last[0]
            if last is not None:
                self.max_timestamp_offset = self.base_offset + last[1]
        return self.max_timestamp

    def largest_timestamp(self) -> int:
        """The largest timestamp, or, where no record has one, the time of the last change."""
        if self.load_max_timestamp() >= 0:
            return self.max_timestamp
        status = self.status()
        return self.created_ms if status is None else status.modified_ms

    def load_first_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 if it has none or there is no batch."""
        if self.first_timestamp == UNKNOWN and self.size:
            first = next(self.batches(0), None)
            self.first_timestamp = -1 if first is None else first.max_timestamp
        return self.first_timestamp if self.size else -1

    def read_aborted(self) -> list[AbortedTransaction]:
        """The transactions that were aborted here, by the order of their markers.

        Raises:
            DamagedFile: the index is not one of this segment.
        """
        if self.aborted is None:
            path = self.path(names.TRANSACTION_INDEX)
            self.aborted = read_aborted(self.storage.reads, path, self.base_offset)
        return self.aborted

    # -- searching ----------------------------------------------------------------------------

    def batches(self, position: int) -> Iterator[BatchAt]:
        """The headers of the batches from a batch's position to the end of the segment.

        Raises:
            DamagedFile: there is something else.
        """
        file = self.file or self.open_file()
        file.used = True
        try:
            yield from scan_batches(self.storage.reads, file, position, self.size)
        except DamagedFile as error:
            raise DamagedFile(f"{self.path(names.LOG)}: {error}") from error

    def position_before(self, offset: int) -> int:
        """The position of a batch that lies not after the one that holds `offset`."""
        offsets, _ = self.indexes()
        found = offsets.floor(
            self.storage.reads, self.path(names.OFFSET_INDEX), offset - self.base_offset
        )
        return 0 if found is None or found[1] >= self.size else found[1]

    def locate(self, offset: int) -> BatchAt | None:
        """The first batch that ends at `offset` or after it."""
        batch = self._indexed(offset)
        if batch is not None:
            return batch
        for batch in self.batches(self.position_before(offset)):
            if batch.last_offset >= offset:
                return batch
        return None

    def _indexed(self, offset: int) -> BatchAt | None:
        """The batch that holds `offset`, if the first index entry from there on is its own.

        So it is wherever batches are larger than the interval of the index.
        """
        file_system = self.storage.reads
        path = self.path(names.OFFSET_INDEX)
        offsets, _ = self.indexes()
        number = offsets.count_to(file_system, path, offset - self.base_offset - 1)
        if number == len(offsets):
            return None
        position = offsets.entry(file_system, path, number)[1]
        if position >= self.size:
            return None
        file = self.file or self.open_file()
        file.used = True
        try:
            batch = read_header(file_system, file, position, self.size)
        except DamagedFile:
            return None  # the index or the log is wrong: a scan will tell
        return batch if batch.base_offset <= offset <= batch.last_offset else None

    def offset_at(self, position: int) -> int | None:
        """The offset of the first index entry at `position` or after it."""
        file_system = self.storage.reads
        path = self.path(names.OFFSET_INDEX)
        offsets, _ = self.indexes()
        before = offsets.count_to(file_system, path, position - 1, field=1)
        if before == len(offsets):
            return None
        return self.base_offset + offsets.entry(file_system, path, before)[0]

    def locate_timestamp(self, timestamp: int, start_offset: int) -> Iterator[BatchAt]:
        """Batches from where the first record of that time or later, and offset, may be."""
        _, times = self.indexes()
        found = times.floor(self.storage.reads, self.path(names.TIME_INDEX), timestamp)
        offset = start_offset if found is None else max(start_offset, self.base_offset + found[1])
        for batch in self.batches(self.position_before(offset)):
            if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                yield batch

    def next_offset(self) -> int:
        """The offset after the last batch, by looking from the last index entry on."""
        offsets = self.offset_index
        if offsets is None:  # the other index is not needed: ten thousand logs begin here
            offsets = OffsetIndex(self._stored(names.OFFSET_INDEX, OffsetIndex))
        last = offsets.last(self.storage.file_system, self.path(names.OFFSET_INDEX))
        position = 0 if last is None or last[1] >= self.size else last[1]
        end = self.base_offset
        for batch in self.batches(position):
            end = batch.last_offset + 1
        return end

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}{self.suffix}, {self.size} bytes)"


def create_segment_file(file_system: FileSystem, path: str, preallocated_bytes: int = 0) -> None:
    """Make an empty `.log` file, as long as it will be if it is to be preallocated."""
    descriptor = file_system.open(path, CREATE)
    try:
        if preallocated_bytes:
            file_system.truncate(descriptor, preallocated_bytes)
    finally:
        file_system.close(descriptor)
