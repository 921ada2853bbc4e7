"""Writes a segment and its indexes to files with the suffix `.cleaned`.

When `finish` returns, the files are complete, and their contents and names survive a crash. The
node then renames the files, and the new segment replaces the old segments. Files that were not
renamed are not used, and the loader of logs removes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.env.file_system import CREATE_EMPTY, Buffer, FileSystem, write_fully
from odradek.log import names
from odradek.log.cleaner.batch_filter import Kept
from odradek.log.cleaner.cleaned_files import cleaned_path, remove_cleaned
from odradek.log.cleaner.source import OnBytes
from odradek.log.errors import DamagedFile
from odradek.log.index_builder import IndexBuilder
from odradek.log.segment import OFFSET_DELTA_MAX
from odradek.log.sequential_writer import SequentialWriter
from odradek.records.segment_files import AbortedTransaction, encode_aborted


class CleanedSegment:
    """A new segment. Always call `close`."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        index_interval_bytes: int,
        on_write: OnBytes,
    ) -> None:
        """Create the `.log` file.

        Raises:
            OSError: the device failed.
        """
        self._file_system = file_system
        self._directory = directory
        self._base_offset = base_offset
        self._on_write = on_write
        self._indexes = IndexBuilder(base_offset, index_interval_bytes)
        remove_cleaned(file_system, directory, base_offset)
        path = self._path(names.LOG)
        self._descriptor = file_system.open(path, CREATE_EMPTY)
        try:
            self._writer = SequentialWriter(file_system, path, self._descriptor)
        except BaseException:
            file_system.close(self._descriptor)
            raise

    def append(self, kept: Kept) -> None:
        """Add a batch. Its bytes are copied.

        Raises:
            DamagedFile: the batch's last offset is too far from the segment's base offset.
            OSError: the device failed.
        """
        relative = kept.last_offset - self._base_offset
        if not 0 <= relative <= OFFSET_DELTA_MAX:
            raise DamagedFile(
                f"offset {kept.last_offset} cannot be in the segment {self._base_offset}"
            )
        writer = self._writer
        self._indexes.add(writer.size, len(kept.data), kept.last_offset, kept.max_timestamp)
        if written := writer.add(kept.data):
            self._on_write(written)

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> int:
        """Write the remaining data and the indexes, and flush. Return the size of the segment.

        `modified_ms` is the modification time of the newest replaced segment. The new `.log` file
        gets this time.

        Raises:
            OSError: the device failed.
        """
        if written := self._writer.finish():
            self._on_write(written)
        self._indexes.finish()
        self._file_system.fsync(self._descriptor)
        self._file_system.set_modified(self._path(names.LOG), modified_ms)
        self._write_file(names.OFFSET_INDEX, self._indexes.offset_entries)
        self._write_file(names.TIME_INDEX, self._indexes.time_entries)
        if aborted:
            entries = encode_aborted(aborted)
            self._write_file(names.TRANSACTION_INDEX, entries)
        self._file_system.sync_directory(self._directory)
        return self._writer.size

    def close(self) -> None:
        """Close the `.log` file."""
        self._writer.close()
        self._file_system.close(self._descriptor)

    def _path(self, kind: str) -> str:
        return cleaned_path(self._directory, self._base_offset, kind)

    def _write_file(self, kind: str, data: Buffer) -> None:
        descriptor = self._file_system.open(self._path(kind), CREATE_EMPTY)
        try:
            if data:
                write_fully(self._file_system, descriptor, data, 0)
            self._file_system.fsync(descriptor)
        finally:
            self._file_system.close(descriptor)
