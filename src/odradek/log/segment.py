"""One segment of a log: a `.log` file of batches, and its indexes.

A segment opens its `.log` file at the first use. The pool of descriptors may close the file again.
Only the active (newest) segment grows, by `append` and `append_batches`. Its indexes have an entry
about every `index.interval.bytes`. A search starts at the last index entry that is not above the
offset or timestamp, and reads batch headers from the position in this entry on.

`positions` and `older_positions` have the positions of the newest batches of the active segment.
Reads of these batches need no search.

The last argument of search methods is the file system to read with. A non-blocking file system
raises `ReadWouldBlock` instead of waiting for the device.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.env.file_system import CREATE, Buffer, FileStatus, FileSystem, write_fully
from odradek.log import names
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DamagedFile, is_for_room
from odradek.log.index import TAIL_SIZE_MAX, Index, OffsetIndex, TimeIndex
from odradek.log.roll_policy import RollPolicy
from odradek.log.scan import BatchAt, read_header, scan_batches
from odradek.log.storage import Storage
from odradek.log.transaction_index import (
    append_aborted,
    length_to,
    read_aborted,
    truncate_aborted,
)
from odradek.records.segment_files import AbortedTransaction

logger = logging.getLogger("odradek.log")

OFFSET_DELTA_MAX: Final = 2**31 - 1
UNKNOWN: Final = -2
"""The value was not read from the files yet."""
_POSITIONS_MAX: Final = 32
"""Maximum number of entries in `positions`, and also in `older_positions`."""
_NO_POSITIONS: Final[dict[int, int]] = {}
"""The positions of a segment that is not active. This dict is never modified."""


class AppendedBatch(NamedTuple):
    """The fields of a batch that `Segment.append_batches` needs."""

    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Cut(NamedTuple):
    """An open file, and the length to which it will be truncated."""

    file: OpenFile
    length: int


class Segment:
    """A segment. No other code writes its fields."""

    __slots__ = (
        "_index_interval_bytes",
        "_offset_index_path",
        "_policy",
        "_pwrite",
        "aborted",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "is_file_used",
        "last_offset_max",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "older_positions",
        "positions",
        "roll_timestamp",
        "size",
        "storage",
        "suffix",
        "time_index",
    )

    def __init__(
        self,
        storage: Storage,
        directory: str,
        base_offset: int,
        size: int,
        *,
        created_ms: int | None = None,
        suffix: str = "",
        has_aborted: bool = True,
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        """Bytes of the `.log` file that hold batches."""
        self.created_ms = storage.clock.now_ms() if created_ms is None else created_ms
        """The time at which the segment became active. It is used if records have no timestamps."""
        self.suffix = suffix
        """The suffix of the files, such as `.deleted` if they will be removed. Usually empty."""
        self.file: OpenFile | None = None
        """The open `.log` file. The pool may drop the file (`hold_file`)."""
        self.is_file_used = False
        """Whether the file was used since the pool last checked."""
        self._offset_index_path = ""
        """The path of the offset index, which is needed for each search. Empty until it is needed."""
        self.offset_index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        self.aborted: list[AbortedTransaction] | None = None if has_aborted else []
        """The content of the transaction index; None if the index was not read yet."""
        self.bytes_since_index = 0
        self.first_timestamp = UNKNOWN
        """The max timestamp of the first batch. The segment's age is measured from this time."""
        self.max_timestamp = UNKNOWN
        self.max_timestamp_offset = base_offset
        """The last offset of the first batch with the max timestamp."""
        self.positions = self.older_positions = _NO_POSITIONS
        """Base offset -> position, for the newest batches."""
        self._pwrite = storage.file_system.pwrite
        self._policy: RollPolicy | None = None
        self._index_interval_bytes = 0
        self.roll_timestamp = UNKNOWN
        """A batch with a later timestamp may need a new segment. `should_roll` decides this."""
        self.last_offset_max = UNKNOWN
        """A batch that ends at a higher offset needs a new segment. If an index is full, this field
        is `UNKNOWN`, which is lower than all offsets."""

    @classmethod
    def create(
        cls, storage: Storage, directory: str, base_offset: int, policy: RollPolicy
    ) -> Segment:
        """Create the files of an empty active segment.

        Raises:
            OSError: the device failed.
        """
        self = cls(storage, directory, base_offset, 0, has_aborted=False)
        self.max_timestamp = self.first_timestamp = -1
        self.offset_index = OffsetIndex()
        self.time_index = TimeIndex()
        path = self.path(names.LOG)
        create_segment_file(storage.file_system, path, policy.preallocated_bytes)
        self.write_indexes()
        self.set_roll_policy(policy)
        return self

    # -- appending ------------------------------------------------------------------------------

    def set_roll_policy(self, policy: RollPolicy) -> None:
        """Set the limits of this segment, which is the active one."""
        if self.positions is _NO_POSITIONS:
            self.forget_positions()
        self._policy = policy
        self._index_interval_bytes = policy.index_interval_bytes
        self.last_offset_max = self.base_offset + OFFSET_DELTA_MAX
        self._note_full_index(policy)
        self.roll_timestamp = UNKNOWN  # every append calls `should_roll`
        if self.first_timestamp >= 0:
            self.roll_timestamp = self.first_timestamp + policy.age_max_ms(self.path(names.LOG))

    def should_roll(self, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Return whether a batch needs a new segment.

        Raises:
            OSError: the device failed.
        """
        policy = self._policy
        assert policy is not None, f"{self!r} is not the active segment"
        if self.max_timestamp == UNKNOWN:  # the first append since the log was loaded
            self.load_max_timestamp()
            try:
                self.load_first_timestamp()
            except DamagedFile as damage:  # appends are possible even if the segment is damaged
                logger.error("%s", damage)
                self.first_timestamp = -1  # the segment's age is measured from its creation
            self.set_roll_policy(policy)
        if last_offset > self.last_offset_max:
            return True
        if not self.size:
            return False
        if self.size + size > policy.segment_bytes:
            return True
        if self.first_timestamp >= 0:
            return max_timestamp > self.roll_timestamp
        age_ms = self.storage.clock.now_ms() - self.created_ms
        return age_ms > policy.age_max_ms(self.path(names.LOG))

    def append(
        self, records: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Append one batch, which has its final offsets.

        Raises:
            OSError: the device is full, and nothing has changed. Or the device failed.
        """
        position = self.size
        file = self.file or self.open_file()
        self.is_file_used = True
        if self._pwrite(file.descriptor, records, position) != size:
            self._write_rest(file, records, position)
        self.size = position + size
        positions = self.positions
        if len(positions) >= _POSITIONS_MAX:
            self.older_positions = positions
            self.positions = positions = {}
        positions[base_offset] = position
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if not position:
            self._on_first_batch(max_timestamp)
        if self.bytes_since_index > self._index_interval_bytes:
            self.bytes_since_index = size
            self._add_index_entries(last_offset, position)
        else:
            self.bytes_since_index += size

    def append_batches(self, records: Buffer, size: int, batches: Sequence[AppendedBatch]) -> None:
        """Append several batches, which are consecutive in `records`, in one write.

        Raises:
            OSError: the device is full, and nothing has changed. Or the device failed.
        """
        position = self.size
        file = self.opened()
        if self._pwrite(file.descriptor, records, position) != size:
            self._write_rest(file, records, position)
        self.size = position + size
        if not position:
            self._on_first_batch(batches[0].max_timestamp)
        since_index = self.bytes_since_index
        for size, _, last_offset, max_timestamp in batches:
            if max_timestamp > self.max_timestamp:
                self.max_timestamp = max_timestamp
                self.max_timestamp_offset = last_offset
            if since_index > self._index_interval_bytes:
                since_index = 0
                self._add_index_entries(last_offset, position)
            since_index += size
            position += size
        self.bytes_since_index = since_index
        self._note_positions(batches)

    def _note_positions(self, batches: Sequence[AppendedBatch]) -> None:
        """Store the positions of the newest batches."""
        last = batches[-_POSITIONS_MAX:]
        position = self.size - sum(batch.size for batch in last)
        found = {}
        for batch in last:
            found[batch.base_offset] = position
            position += batch.size
        if len(self.positions) + len(found) > _POSITIONS_MAX:
            self.older_positions = self.positions
            self.positions = found
        else:
            self.positions.update(found)

    def _on_first_batch(self, max_timestamp: int) -> None:
        """Set the time from which the segment's age is measured."""
        self.first_timestamp = max_timestamp
        assert self._policy is not None
        self.set_roll_policy(self._policy)

    def _write_rest(self, file: OpenFile, records: Buffer, position: int) -> None:
        """Handle a write of too few bytes. Write all bytes again; if this fails, undo the write.

        Raises:
            OSError: the device is full, and the write was undone. Or the device failed.
        """
        file_system = self.storage.file_system
        try:
            write_fully(file_system, file.descriptor, records, position)
        except OSError:
            try:
                file_system.truncate(file.descriptor, position)
            except OSError as error:  # a part of the batch remains in the file
                raise OSError(errno.EIO, f"a torn batch cannot be removed: {error}") from error
            raise

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        """Add index entries for the batch at `position`.

        Raises:
            OSError: the device failed. If the device is only full, no error is raised. The entries
                stay in memory and are written together with the next entries.
        """
        offsets, _ = self.indexes()
        offsets.append(last_offset - self.base_offset, position)
        self.add_time_entry()
        if len(offsets.tail) >= TAIL_SIZE_MAX:
            try:
                self.write_indexes()
            except OSError as error:
                if not is_for_room(error):
                    raise
        assert self._policy is not None
        self._note_full_index(self._policy)

    def _note_full_index(self, policy: RollPolicy) -> None:
        offsets, times = self.offset_index, self.time_index
        if offsets is None or times is None:
            return
        if len(offsets) >= policy.offset_entries_max or len(times) >= policy.time_entries_max:
            self.last_offset_max = UNKNOWN

    def forget_positions(self) -> None:
        """Remove the positions of the newest batches. Reads of these batches then use the index."""
        self.positions = {}
        self.older_positions = _NO_POSITIONS

    def on_successor(self) -> None:
        """Remove the positions, because a newer segment is active now."""
        self.positions = self.older_positions = _NO_POSITIONS

    def on_become_inactive(self) -> None:
        """Write the index entries that are only in memory, and free unused preallocated space.

        Raises:
            OSError: the device failed.
        """
        self.finish_indexes()
        if self._policy is not None and self._policy.preallocated_bytes:
            self.trim()

    # -- truncation --------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> list[Cut]:
        """Remove the batch that contains `offset`, all later batches, and their index entries.

        The files are not changed. Return the files to truncate. Nothing may be appended before they
        are truncated.

        Raises:
            OSError: the device failed.
            DamagedFile: the file does not consist of valid batches.
        """
        file_system = self.storage.file_system
        at_offset = self.locate(offset)
        offsets, times = self.indexes()
        log_file = self.opened()
        offset_file, time_file = self._file_of(names.OFFSET_INDEX), self._file_of(names.TIME_INDEX)
        relative = offset - self.base_offset
        offset_path, time_path = self.path(names.OFFSET_INDEX), self.path(names.TIME_INDEX)
        offsets.forget_from(offsets.count_to(file_system, offset_path, relative - 1))
        times.forget_from(times.count_to(file_system, time_path, relative - 1, field=1))
        aborted_path = self.path(names.TRANSACTION_INDEX)
        aborted_length = length_to(file_system, aborted_path, offset)
        aborted_file = None
        if aborted_length is not None:
            aborted_file = self._file_of(names.TRANSACTION_INDEX)
        self.aborted = None
        if at_offset is not None:
            self.size = at_offset.position
        if self.size == 0:
            self.created_ms = self.storage.clock.now_ms()
            self.first_timestamp = UNKNOWN
        self.bytes_since_index = 0
        self.forget_positions()
        self._find_max_timestamp()
        self.write_indexes()
        cuts = [
            Cut(log_file, self.size),
            Cut(offset_file, len(offsets) * offsets.ENTRY.size),
            Cut(time_file, len(times) * times.ENTRY.size),
        ]
        if aborted_file is not None and aborted_length is not None:
            cuts.append(Cut(aborted_file, aborted_length))
        return cuts

    def _file_of(self, kind: str) -> OpenFile:
        file_system = self.storage.file_system
        return OpenFile(file_system.open(self.path(kind), CREATE), file_system.close)

    def _find_max_timestamp(self) -> None:
        """Find the largest remaining timestamp in the time index and the batches after it."""
        self.max_timestamp = UNKNOWN
        self.load_max_timestamp()
        for batch in self.batches(self.position_before(self.max_timestamp_offset)):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp = batch.max_timestamp
                self.max_timestamp_offset = batch.last_offset

    # -- recovery -------------------------------------------------------------------------------

    def begin_recovery(self) -> tuple[OffsetIndex, TimeIndex]:
        """Clear the indexes, in memory and on disk, so that recovery can rebuild them.

        Raises:
            OSError: the device failed.
        """
        file_system = self.storage.file_system
        self.offset_index = offsets = OffsetIndex(1)
        self.time_index = times = TimeIndex(1)
        offsets.truncate(file_system, self.path(names.OFFSET_INDEX), 0)
        times.truncate(file_system, self.path(names.TIME_INDEX), 0)
        truncate_aborted(file_system, self.path(names.TRANSACTION_INDEX), 0)
        self.aborted = None
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        return offsets, times

    def end_recovery(self, size: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Set the size of the valid batches and their largest timestamp.

        Raises:
            OSError: the device failed.
        """
        self.size = size
        self.max_timestamp = max_timestamp
        self.max_timestamp_offset = max_timestamp_offset
        self.finish_indexes()

    # -- aborted transactions -------------------------------------------------------------------

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """Write an aborted transaction to the transaction index. Its marker is appended next.

        Raises:
            OSError: the device failed or is full.
        """
        append_aborted(self.storage.file_system, self.path(names.TRANSACTION_INDEX), entry)
        if self.aborted is not None:
            self.aborted.append(entry)

    def note_missing_aborted(self) -> None:
        """Check whether the file of the transaction index exists, so that reads need not check."""
        path = self.path(names.TRANSACTION_INDEX)
        if self.storage.file_system.status(path) is None:
            self.aborted = []

    def take_back_aborted(self, entry: AbortedTransaction) -> None:
        """Remove the last entry of the transaction index, because its marker was not appended.

        Raises:
            OSError: the device failed.
        """
        path = self.path(names.TRANSACTION_INDEX)
        truncate_aborted(self.storage.file_system, path, entry.last_offset)
        if self.aborted is not None and entry in self.aborted:
            self.aborted.remove(entry)

    # -- files --------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        """Return the path of the file of a kind, such as `names.LOG`."""
        return f"{self.directory}/{self.base_offset:020d}{kind}{self.suffix}"

    def _index_path(self) -> str:
        path = self._offset_index_path
        if not path:
            path = self._offset_index_path = self.path(names.OFFSET_INDEX)
        return path

    def open_file(self) -> OpenFile:
        """Open the `.log` file.

        Raises:
            OSError: the file cannot be opened.
        """
        return self.storage.descriptors.open(self, self.path(names.LOG), CREATE)

    def opened(self) -> OpenFile:
        """Return the `.log` file; open the file if it is closed.

        Raises:
            OSError: the file cannot be opened.
        """
        self.is_file_used = True
        return self.file or self.open_file()

    def close_file(self) -> None:
        """Close the `.log` file as soon as no `FileRange` uses it."""
        self.storage.descriptors.release(self)

    def hold_file(self, file: OpenFile | None) -> None:
        """See `FileHolder`."""
        self.file = file

    def take_use(self) -> bool:
        """See `FileHolder`."""
        was_used = self.is_file_used
        self.is_file_used = False
        return was_used

    def write_indexes(self) -> None:
        """Write the index entries that are only in memory. Create the index files if necessary.

        Raises:
            OSError: the device failed.
        """
        file_system = self.storage.file_system
        offsets, times = self.indexes()
        offsets.write(file_system, self.path(names.OFFSET_INDEX))
        times.write(file_system, self.path(names.TIME_INDEX))

    def finish_indexes(self) -> None:
        """Add the time index entry of the largest timestamp, and write both indexes.

        Raises:
            OSError: the device failed.
        """
        self.load_max_timestamp()
        self.add_time_entry()
        self.write_indexes()

    def trim(self) -> None:
        """Free the preallocated space of the `.log` file that is not used.

        Raises:
            OSError: the device failed.
        """
        self.storage.file_system.truncate(self.opened().descriptor, self.size)

    def on_directory_moved(self, directory: str) -> None:
        """Record that the directory of the partition was renamed. Open files stay open."""
        self.directory = directory
        self._offset_index_path = ""

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files of the segment.

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
        self._offset_index_path = ""

    def status(self) -> FileStatus | None:
        """Return the status of the `.log` file; None if it does not exist."""
        return self.storage.file_system.status(self.path(names.LOG))

    # -- indexes ------------------------------------------------------------------------------

    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Return the offset index and the time index."""
        if self.offset_index is None or self.time_index is None:
            self.offset_index = OffsetIndex(self._stored(names.OFFSET_INDEX, OffsetIndex))
            self.time_index = TimeIndex(self._stored(names.TIME_INDEX, TimeIndex))
        return self.offset_index, self.time_index

    def _stored(self, kind: str, index: type[Index]) -> int:
        status = self.storage.file_system.status(self.path(kind))
        return 0 if status is None else status.size // index.ENTRY.size

    def forget_indexes(self) -> None:
        """Remove the indexes from memory. All entries must be in the files."""
        self.offset_index = self.time_index = None

    def add_time_entry(self) -> None:
        """Add the largest timestamp so far to the time index, unless the index has it."""
        _, times = self.indexes()
        last = times.known_last
        if last is None and len(times):
            last = times.last(self.storage.file_system, self.path(names.TIME_INDEX))
        if self.max_timestamp > (-1 if last is None else last[0]):
            times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def load_max_timestamp(self, files: FileSystem | None = None) -> int:
        """Return the largest timestamp of the segment; -1 if no record has a timestamp."""
        if self.max_timestamp == UNKNOWN:
            _, times = self.indexes()
            last = times.last(files or self.storage.file_system, self.path(names.TIME_INDEX))
            self.max_timestamp = -1 if last is None else last[0]
            if last is not None:
                self.max_timestamp_offset = self.base_offset + last[1]
        return self.max_timestamp

    def largest_timestamp(self, files: FileSystem | None = None) -> int:
        """Return the largest timestamp, or the file's modification time if there is none."""
        if self.load_max_timestamp(files) >= 0:
            return self.max_timestamp
        status = self.status()
        return self.created_ms if status is None else status.modified_ms

    def load_first_timestamp(self, files: FileSystem | None = None) -> int:
        """Return the max timestamp of the first batch; -1 if there is no timestamp or no batch."""
        if self.first_timestamp == UNKNOWN and self.size:
            first = next(self.batches(0, files), None)
            self.first_timestamp = -1 if first is None else first.max_timestamp
        return self.first_timestamp if self.size else -1

    def read_aborted(self, files: FileSystem | None = None) -> list[AbortedTransaction]:
        """Return aborted transactions whose marker is in this segment, in the order of the markers.

        Raises:
            DamagedFile: the index does not belong to this segment.
        """
        if self.aborted is None:
            path = self.path(names.TRANSACTION_INDEX)
            self.aborted = read_aborted(files or self.storage.file_system, path, self.base_offset)
        return self.aborted

    # -- searching ----------------------------------------------------------------------------

    def batches(self, position: int, files: FileSystem | None = None) -> Iterator[BatchAt]:
        """Yield the headers of the batches from `position` to the end of the segment.

        `position` is the position of a batch.

        Raises:
            DamagedFile: the file does not consist of valid batches.
        """
        file = self.opened()
        try:
            yield from scan_batches(files or self.storage.file_system, file, position, self.size)
        except DamagedFile as error:
            raise DamagedFile(f"{self.path(names.LOG)}: {error}") from error

    def position_before(self, offset: int, files: FileSystem | None = None) -> int:
        """Return the position of the batch that contains `offset`, or of an earlier batch."""
        offsets, _ = self.indexes()
        files = files or self.storage.file_system
        found = offsets.floor(files, self._index_path(), offset - self.base_offset)
        return 0 if found is None or found[1] >= self.size else found[1]

    def position_of(self, base_offset: int) -> int | None:
        """Return the position of a batch if it is one of the newest batches, else None."""
        position = self.positions.get(base_offset)
        return self.older_positions.get(base_offset) if position is None else position

    def locate(self, offset: int, files: FileSystem | None = None) -> BatchAt | None:
        """Return the first batch whose last offset is not below `offset`; None if there is none."""
        files = files or self.storage.file_system
        batch = self._indexed(offset, files)
        if batch is not None:
            return batch
        for batch in self.batches(self.position_before(offset, files), files):
            if batch.last_offset >= offset:
                return batch
        return None

    def _indexed(self, offset: int, files: FileSystem) -> BatchAt | None:
        """Return the batch that contains `offset` if the index has an entry for this batch.

        If batches are larger than `index.interval.bytes`, almost every batch has an entry.
        """
        path = self._index_path()
        offsets, _ = self.indexes()
        number = offsets.count_to(files, path, offset - self.base_offset - 1)
        if number == len(offsets):
            return None
        position = offsets.entry(files, path, number)[1]
        if position >= self.size:
            return None
        file = self.opened()
        try:
            batch = read_header(files, file, position, self.size)
        except DamagedFile:
            return None  # the index or the log is damaged; the scan finds out which
        return batch if batch.base_offset <= offset <= batch.last_offset else None

    def offset_at(self, position: int, files: FileSystem | None = None) -> int | None:
        """Return the offset of the first index entry at or after `position`, or None."""
        files = files or self.storage.file_system
        path = self._index_path()
        offsets, _ = self.indexes()
        before = offsets.count_to(files, path, position - 1, field=1)
        if before == len(offsets):
            return None
        return self.base_offset + offsets.entry(files, path, before)[0]

    def locate_timestamp(
        self, timestamp: int, start_offset: int, files: FileSystem | None = None
    ) -> Iterator[BatchAt]:
        """Yield the batches that may have a record at or after `timestamp` and `start_offset`."""
        files = files or self.storage.file_system
        _, times = self.indexes()
        found = times.floor(files, self.path(names.TIME_INDEX), timestamp)
        offset = start_offset if found is None else max(start_offset, self.base_offset + found[1])
        for batch in self.batches(self.position_before(offset, files), files):
            if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                yield batch

    def next_offset(self) -> int:
        """Return the offset after the last batch. Reads batch headers from the last index entry."""
        offsets = self.offset_index
        if offsets is None:  # do not load the time index: this runs at startup for each log
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
    """Create an empty `.log` file of the length `preallocated_bytes`."""
    descriptor = file_system.open(path, CREATE)
    try:
        if preallocated_bytes:
            file_system.truncate(descriptor, preallocated_bytes)
    finally:
        file_system.close(descriptor)
