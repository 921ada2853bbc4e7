"""Reads that are not of the last batches; see `partition_log` for those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.env.file_range import FileRange
from odradek.log.appending import check_online
from odradek.log.errors import DamagedFile, OffsetOutOfRange
from odradek.log.results import FetchData
from odradek.log.scan import BatchAt
from odradek.log.segment import Segment
from odradek.log.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog


def read(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    limit: int,
    whole_first: bool,
    with_aborted: bool,
) -> FetchData | None:
    """See `PartitionLog.read`.

    Raises:
        OffsetOutOfRange: `offset` is before the log's start or after its end.
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(
            f"{log.topic_partition} holds the offsets {log.log_start_offset} to "
            f"{log.log_end_offset}, not {offset}"
        )
    if offset >= limit:
        return None
    try:
        return _read(log, offset, max_bytes, limit, whole_first, with_aborted)
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error


def _read(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    limit: int,
    whole_first: bool,
    with_aborted: bool,
) -> FetchData | None:
    for number in range(max(0, log.segment_of(offset)), len(log.segments)):
        segment = log.segments[number]
        if segment.base_offset >= limit:
            return None
        first = segment.locate(offset)
        if first is None:
            continue  # compaction has removed what there was of it behind the offset
        end = _end_position(log, number, limit)
        if first.position >= end:
            return None
        length = min(end - first.position, max(max_bytes, first.size if whole_first else 0))
        if length < first.size:
            return None
        file = segment.file or segment.open_file()
        aborted: list[AbortedTransaction] = []
        if with_aborted:
            upper = _upper_offset(log, number, first, length)
            aborted = _collect_aborted(log, number, offset, upper)
        return FetchData(FileRange(file.descriptor, first.position, length, file), aborted)
    return None


def _end_position(log: PartitionLog, number: int, limit: int) -> int:
    """Where in the segment the offset `limit` begins, or the segment's end."""
    segment = log.segments[number]
    is_last = number + 1 == len(log.segments)
    if limit >= (log.log_end_offset if is_last else log.segments[number + 1].base_offset):
        return segment.size
    at_limit = segment.locate(limit)
    return segment.size if at_limit is None else at_limit.position


def _upper_offset(log: PartitionLog, number: int, first: BatchAt, length: int) -> int:
    """An offset that is not below those of the range."""
    segment = log.segments[number]
    found = segment.offset_at(first.position + length)
    if found is not None:
        return found
    is_last = number + 1 == len(log.segments)
    return log.log_end_offset if is_last else log.segments[number + 1].base_offset


def aborted_transactions(log: PartitionLog, offset: int, upper: int) -> list[AbortedTransaction]:
    """See `PartitionLog.aborted_transactions`.

    Raises:
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    try:
        return _collect_aborted(log, max(0, log.segment_of(offset)), offset, upper)
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error


def _collect_aborted(
    log: PartitionLog, number: int, offset: int, upper: int
) -> list[AbortedTransaction]:
    """Markers come after what they abort: look at indexes from the segment of `offset` on.

    Once an entry's last stable offset has reached `upper`, no later marker can concern it.
    """
    found = []
    for segment in log.segments[number:]:
        for entry in segment.read_aborted():
            if entry.last_offset >= offset and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found
    return found


def segment_batches(log: PartitionLog, segment: Segment) -> list[BatchAt]:
    """All batches of a segment; for tools and tests.

    Raises:
        LogDirectoryOffline: the disk failed.
    """
    try:
        return list(segment.batches(0))
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error
