"""When a log begins a new segment, and how.

A segment is followed by a new one when the next batch would make it larger than
`segment.bytes`, when that batch is later than the first one by more than `segment.ms` less a
random part of `segment.jitter.ms` (by the records' timestamps; by the clock where they have
none), when an index is full (`segment.index.bytes`), or when the batch's last offset is too far
from the base offset for an index entry.

All four are kept as two limits that an append compares with: `PartitionLog.roll_size` and
`Segment.roll_timestamp`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.log import flushing, names, snapshots
from odradek.log.errors import DamagedFile, DiskFull
from odradek.log.index import TAIL_SIZE_MAX, OffsetIndex, TimeIndex
from odradek.log.segment import OFFSET_DELTA_MAX, UNKNOWN, Segment, create_segment_file
from odradek.records.checksum import crc32c

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger("odradek.log")


def set_limits(log: PartitionLog, segment: Segment) -> None:
    """Compute the limits of the active segment anew."""
    config = log.config
    log.roll_size = -1 if _index_is_full(log, segment) else config.segment_bytes
    _watch_offsets(log, segment, log.log_end_offset)
    first = segment.first_timestamp
    if first >= 0:
        segment.roll_timestamp = first + config.segment_age_max_ms - _jitter_ms(log, segment)
    else:
        segment.roll_timestamp = UNKNOWN  # every batch asks `roll_if_due`


def _watch_offsets(log: PartitionLog, segment: Segment, last_offset: int) -> None:
    """Halfway to the last offset that an index entry can have, every batch asks `roll_if_due`."""
    if last_offset - segment.base_offset > OFFSET_DELTA_MAX // 2:
        log.roll_size = min(log.roll_size, 0)


def _jitter_ms(log: PartitionLog, segment: Segment) -> int:
    """A part of `segment.jitter.ms` that is the same for a segment whenever it is asked for."""
    config = log.config
    jitter_max = min(config.segment_jitter_ms, config.segment_age_max_ms)
    if jitter_max <= 0:
        return 0
    return crc32c(segment.path(names.LOG).encode()) % jitter_max


def roll_if_due(
    log: PartitionLog, size: int, max_timestamp: int, first_offset: int, last_offset: int
) -> Segment:
    """The segment for a batch: the active one, or a new one.

    Raises:
        DiskFull: there is no room for a new one.
        LogDirectoryOffline: the disk failed.
    """
    segment = log.active
    if segment.max_timestamp == UNKNOWN:
        _load_times(log, segment)
    if _is_due(log, segment, size, max_timestamp, last_offset):
        segment = roll(log, first_offset)
    _watch_offsets(log, segment, last_offset)
    return segment


def begin(log: PartitionLog, segment: Segment, max_timestamp: int) -> None:
    """The first batch of the active segment is written: its age counts from that batch."""
    segment.first_timestamp = max_timestamp
    set_limits(log, segment)


def _load_times(log: PartitionLog, segment: Segment) -> None:
    """The first append since the log was loaded: learn of the times of the active segment."""
    try:
        segment.load_max_timestamp()
        try:
            segment.load_first_timestamp()
        except DamagedFile as damage:  # no reason to refuse new records
            logger.error("%s is damaged: %s", log.topic_partition, damage)
            segment.first_timestamp = -1  # the segment's age counts from its creation
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error
    set_limits(log, segment)


def _is_due(
    log: PartitionLog, segment: Segment, size: int, max_timestamp: int, last_offset: int
) -> bool:
    if log.roll_size < 0 or last_offset - segment.base_offset > OFFSET_DELTA_MAX:
        return True
    if segment.size == 0:
        return False
    if segment.size + size > log.config.segment_bytes:
        return True
    if segment.first_timestamp >= 0:
        return max_timestamp > segment.roll_timestamp
    age_ms = log.storage.clock.now_ms() - segment.created_ms
    return age_ms > log.config.segment_age_max_ms - _jitter_ms(log, segment)


def roll(log: PartitionLog, base_offset: int) -> Segment:
    """Close the active segment and begin one at `base_offset`, at or above the log's end.

    Raises:
        DiskFull: the active segment is the same as before.
        LogDirectoryOffline: the disk failed.
    """
    old = log.active
    assert base_offset >= log.log_end_offset
    assert base_offset > old.base_offset or old.size == 0
    # An empty segment whose index has no room at all is followed by one of the same name.
    has_other_name = base_offset != old.base_offset
    try:
        if has_other_name:
            old.finish_indexes()
            if log.config.preallocate:
                old.trim()
            snapshots.take(log, base_offset)
        new = add_segment(log, base_offset)
    except OSError as error:
        if has_other_name:
            _remove_files(log, base_offset)
        raise log.refuse("roll", error) from error
    if not has_other_name:
        del log.segments[-2], log.bases[-2]
    logger.info("%s: new segment at offset %d", log.topic_partition, base_offset)
    flushing.flush_in_background(log)
    return new


def _remove_files(log: PartitionLog, base_offset: int) -> None:
    """Remove what there is of a segment that could not be made."""
    file_system = log.storage.file_system
    try:
        for kind in names.SEGMENT_KINDS:
            path = f"{log.path}/{names.file_name(base_offset, kind)}"
            if file_system.status(path) is not None:
                file_system.remove(path)
    except OSError as error:
        raise log.fail("roll", error) from error


def add_segment(log: PartitionLog, base_offset: int) -> Segment:
    """Make an empty active segment.

    Raises:
        OSError: the device failed.
    """
    storage = log.storage
    config = log.config
    segment = Segment(storage, log.path, base_offset, 0, storage.clock.now_ms())
    segment.max_timestamp = segment.first_timestamp = -1
    segment.offset_index = OffsetIndex()
    segment.time_index = TimeIndex()
    segment.aborted = []
    size = config.segment_bytes if config.preallocate else 0
    create_segment_file(storage.file_system, segment.path(names.LOG), size)
    segment.write_indexes()
    log.segments.append(segment)
    log.bases.append(base_offset)
    log.active = segment
    log.is_unsynced = True
    log.forget_positions()
    set_limits(log, segment)
    return segment


def add_index_entries(log: PartitionLog, segment: Segment, last_offset: int, position: int) -> None:
    """A batch was written far enough from the last one that has an entry.

    Raises:
        LogDirectoryOffline: the disk failed.
    """
    try:
        segment.add_index_entries(last_offset, position, TAIL_SIZE_MAX)
    except OSError as error:
        refusal = log.refuse("write the index of", error)
        if not isinstance(refusal, DiskFull):
            raise refusal from error
        # The entries stay in memory, and are written with the next ones.
    _watch_offsets(log, segment, last_offset)
    if _index_is_full(log, segment):
        log.roll_size = -1


def _index_is_full(log: PartitionLog, segment: Segment) -> bool:
    offsets, times = segment.offset_index, segment.time_index
    if offsets is None or times is None:
        return False
    limit = log.config.segment_index_bytes
    return (
        len(offsets) >= limit // OffsetIndex.ENTRY.size
        or len(times) >= limit // TimeIndex.ENTRY.size - 1
    )
