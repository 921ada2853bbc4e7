"""Reads that search the indexes.

Most reads of the newest batches need no search. `PartitionLog.read` serves these reads. The last
argument of each function is the file system to read with (see `segment`).
"""

from __future__ import annotations

from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.log.log_segments import LogSegments
from odradek.log.results import FetchData, new_fetch_data
from odradek.log.scan import BatchAt
from odradek.records.segment_files import AbortedTransaction


def read(
    segments: LogSegments,
    offset: int,
    max_bytes: int,
    limit: int,
    end_offset: int,
    whole_first: bool,
    with_aborted: bool,
    files: FileSystem,
) -> FetchData | None:
    """See `PartitionLog.read`. `end_offset` is the log end offset.

    Raises:
        ReadWouldBlock: `files` would have to wait for the device.
        DamagedFile: the file does not consist of valid batches.
        OSError: the device failed.
    """
    for number in range(max(0, segments.floor(offset)), len(segments)):
        segment = segments[number]
        if segment.base_offset >= limit:
            return None
        first = segment.locate(offset, files)
        if first is None:
            continue  # compaction has removed all records of the segment from the offset on
        end = _end_position(segments, number, limit, end_offset, files)
        if first.position >= end:
            return None
        length = min(end - first.position, max(max_bytes, first.size if whole_first else 0))
        if length < first.size:
            return None
        file = segment.opened()
        aborted: list[AbortedTransaction] = []
        if with_aborted:
            upper = _upper_offset(segments, number, first, length, end_offset, files)
            aborted = collect_aborted(segments, number, offset, upper, files)
        part = FileRange(file.descriptor, first.position, length, file)
        return new_fetch_data(FetchData, (part, aborted))
    return None


def _end_position(
    segments: LogSegments, number: int, limit: int, end_offset: int, files: FileSystem
) -> int:
    """Return the position of the offset `limit` in the segment, or the end of the segment."""
    segment = segments[number]
    following = segments.base_after(number)
    if limit >= (end_offset if following is None else following):
        return segment.size
    position = segment.position_of(limit)
    if position is not None:
        return position
    at_limit = segment.locate(limit, files)
    return segment.size if at_limit is None else at_limit.position


def _upper_offset(
    segments: LogSegments,
    number: int,
    first: BatchAt,
    length: int,
    end_offset: int,
    files: FileSystem,
) -> int:
    """Return an upper bound of the offsets in the range."""
    found = segments[number].offset_at(first.position + length, files)
    if found is not None:
        return found
    following = segments.base_after(number)
    return end_offset if following is None else following


def collect_aborted(
    segments: LogSegments, number: int, offset: int, upper: int, files: FileSystem
) -> list[AbortedTransaction]:
    """Return aborted transactions with records at or above `offset` that begin below `upper`.

    `number` is the number of the segment that contains `offset`. A marker comes after the records
    that it aborts. Therefore only the transaction indexes of this segment and of later segments
    matter. The search ends at an entry whose last stable offset is at or above `upper`, because no
    later marker can abort a transaction that begins below `upper`.

    Raises:
        ReadWouldBlock: `files` would have to wait for the device.
        DamagedFile: an index is damaged.
        OSError: the device failed.
    """
    found = []
    for each in range(number, len(segments)):
        for entry in segments[each].read_aborted(files):
            if entry.last_offset >= offset and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found
    return found
