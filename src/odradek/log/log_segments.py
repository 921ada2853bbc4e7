"""The segments of one log, oldest first, and the log start offset (`LogSegments` in Apache Kafka).

A log always has at least one segment.

Only this module adds, removes and replaces segments, so that `bases` and `active` are always
correct. Files of removed segments get the suffix `.deleted`, and are deleted after
`file.delete.delay.ms`. A file stays open while a part of it is sent to a reader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from odradek.log import names
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.segment import Segment


class LogSegments:
    """The segments of one log."""

    __slots__ = ("_directory", "_segments", "active", "bases", "log_start_offset")

    def __init__(
        self, directory: PartitionDirectory, segments: list[Segment], log_start_offset: int
    ) -> None:
        assert segments, "a log has a segment"
        self._directory = directory
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        """The base offsets of the segments."""
        self.active = segments[-1]
        """The newest segment, which receives appends."""
        self.log_start_offset = log_start_offset
        """The first offset that may be read. It may be inside a segment."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return sum(segment.size for segment in self._segments)

    def floor(self, offset: int) -> int:
        """Return which segment may have the offset, counted from 0; -1 if all segments are later."""
        return bisect_right(self.bases, offset) - 1

    def since(self, offset: int) -> Sequence[Segment]:
        """Return the segment that may have the offset, and all later segments."""
        return self._segments[max(0, self.floor(offset)) :]

    def base_after(self, number: int) -> int | None:
        """Return the base offset of the next segment; None for the active segment."""
        return self.bases[number + 1] if number + 1 < len(self.bases) else None

    def start_at(self, offset: int) -> None:
        """Set the log start offset. Segments below this offset are deleted later."""
        assert offset >= 0, "an offset"
        self.log_start_offset = offset
        self.active.forget_positions()

    def add(self, segment: Segment) -> None:
        """Add a new active segment. It may replace an empty segment that has the same name."""
        if segment.base_offset == self.bases[-1]:
            assert self.active.size == 0
            self.active.close_file()
            self._segments[-1] = segment
        else:
            assert segment.base_offset > self.bases[-1]
            self.active.on_successor()
            self._segments.append(segment)
            self.bases.append(segment.base_offset)
        self.active = segment
        self._directory.on_names_changed()

    def remove(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """Remove segments in the given order. At least one segment must remain.

        Raises:
            OSError: the device failed.
        """
        assert len(segments) < len(self._segments), "one segment remains"
        gone = set(segments)
        self._set([segment for segment in self._segments if segment not in gone])
        self._retire(segments, delay_ms)

    def restart(self, successor: Callable[[], Segment], delay_ms: int) -> None:
        """Remove all segments, newest first. `successor` creates the new, only segment.

        Raises:
            OSError: the device failed.
        """
        self._retire(self._segments[::-1], delay_ms)
        self._set([successor()])

    def replace(self, old_bases: Sequence[int], size: int, delay_ms: int) -> Segment:
        """Replace adjacent segments by a new segment in `.cleaned` files.

        None of the old segments is active. The new segment has the base offset of the first old
        segment, and `size` bytes. The files are renamed in the same order as in Apache Kafka:

        1. The new files are renamed from `.cleaned` to `.swap`.
        2. The old files are renamed to `.deleted`.
        3. The new files are renamed from `.swap` to their final names.

        This order makes the replacement atomic. If there is a `.cleaned` file after a crash, the
        loader removes the new files. If all new files are `.swap`, the loader removes the old files
        and renames the new ones. The file system must keep the order of changes to a directory.
        Journaling file systems do this. The contents of the new files were flushed before.

        Raises:
            OSError: the device failed.
        """
        first = self.bases.index(old_bases[0])
        old = self._segments[first : first + len(old_bases)]
        assert [segment.base_offset for segment in old] == list(old_bases)
        assert self.active not in old
        directory = self._directory
        new = Segment(
            directory.storage,
            directory.path,
            old_bases[0],
            size,
            created_ms=old[-1].created_ms,
            suffix=names.CLEANED,
        )
        status = new.status()
        assert status is not None
        assert status.size == size, f"{new!r} has {status.size} bytes"
        new.rename(names.SWAP)
        self._retire(old, delay_ms)
        new.rename("")
        new.note_missing_aborted()
        self._set([*self._segments[:first], new, *self._segments[first + len(old) :]])
        return new

    def on_directory_moved(self, path: str) -> None:
        """Record that the directory of the partition was renamed to `path`."""
        for segment in self._segments:
            segment.on_directory_moved(path)

    def close_files(self) -> None:
        """Close the `.log` files."""
        for segment in self._segments:
            segment.close_file()

    def _set(self, segments: list[Segment]) -> None:
        assert segments, "a log has a segment"
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        assert self.bases == sorted({*self.bases}), "segments are in order"
        self.active = segments[-1]

    def _retire(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """Rename the files of segments to `.deleted`, and remove them after the delay."""
        paths: list[str] = []
        for segment in segments:
            segment.rename(names.DELETED)
            paths += [segment.path(kind) for kind in names.SEGMENT_KINDS]
            segment.close_file()
        self._directory.remove_later(paths, delay_ms)
        self._directory.on_names_changed()
