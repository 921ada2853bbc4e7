"""The segments of one log, oldest first, and where the log starts (`LogSegments` in Apache Kafka).

There is always at least one segment.

Only this module adds, removes and replaces segments, so that `bases` and `active` always agree with
them. Removed files get the suffix `.deleted` and are removed after `file.delete.delay.ms`; a
segment stays open while a part of it is being sent to a reader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from odradek.log import names
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.segment import Segment


class LogSegments:
    """See the module."""

    __slots__ = ("_directory", "_segments", "active", "bases", "log_start_offset")

    def __init__(
        self, directory: PartitionDirectory, segments: list[Segment], log_start_offset: int
    ) -> None:
        self._directory = directory
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        """Their base offsets."""
        self.active = segments[-1]
        """The newest segment, which receives appends."""
        self.log_start_offset = log_start_offset
        """The first offset that may be read; it may be inside a segment."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    def floor(self, offset: int) -> int:
        """The index of the segment that may hold the offset; -1 if the offset is before all."""
        return bisect_right(self.bases, offset) - 1

    def since(self, offset: int) -> Sequence[Segment]:
        """The segment that may hold the offset, and all later ones."""
        return self._segments[max(0, self.floor(offset)) :]

    def base_after(self, number: int) -> int | None:
        """Base offset of the next segment; None if this is the active one."""
        return self.bases[number + 1] if number + 1 < len(self.bases) else None

    def start_at(self, offset: int) -> None:
        """Set the log start offset; segments below it are deleted later."""
        self.log_start_offset = offset
        self.active.forget_positions()

    def add(self, segment: Segment) -> None:
        """Add a new active segment. It replaces an empty one of the same name, with its files."""
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
        """Remove segments in the given order; at least one must remain.

        Raises:
            OSError: the device failed.
        """
        gone = set(segments)
        self._set([segment for segment in self._segments if segment not in gone])
        self._retire(segments, delay_ms)

    def restart(self, successor: Callable[[], Segment], delay_ms: int) -> None:
        """Remove all segments, newest first; `successor` creates the only remaining one.

        Raises:
            OSError: the device failed.
        """
        self._retire(self._segments[::-1], delay_ms)
        self._set([successor()])

    def replace(self, old_bases: Sequence[int], size: int, delay_ms: int) -> Segment:
        """Replace adjacent segments, none of them active, by the `.cleaned` files of the first.

        `size` is that of the new segment. The order of the renames is the same as Apache Kafka's
        and makes the replacement atomic: after a crash the loader either completes or undoes all of
        it.

            .cleaned -> .swap         while one file is still `.cleaned`, the loader drops the new
            old -> .deleted           with all files `.swap`, it drops the old and completes
            .swap -> the final name

        This relies on a file system that keeps the order of changes to a directory, as those with
        a journal do. The contents of the new files were synced before.

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

    def close_files(self) -> None:
        """Close the `.log` files."""
        for segment in self._segments:
            segment.close_file()

    def _set(self, segments: list[Segment]) -> None:
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def _retire(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """Rename the files of segments; they are removed after the delay."""
        paths: list[str] = []
        for segment in segments:
            segment.rename(names.DELETED)
            paths += [segment.path(kind) for kind in names.SEGMENT_KINDS]
            segment.close_file()
        self._directory.remove_later(paths, delay_ms)
        self._directory.on_names_changed()
