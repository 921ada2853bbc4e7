"""Cuts records off the end of a log, as a follower does whose leader has others.

A cut is synced before anything is appended behind it: else a crash might bring back records of
the old history behind those of the new one. Segments are given up from the newest on, and for
good before the last one is shortened, so that a crash in between leaves a log without gaps.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.log import names, retention, rolling, snapshots
from odradek.log.appending import check_online
from odradek.log.errors import DamagedFile
from odradek.log.flushing import FlushWork
from odradek.log.producers_on_disk import reload_producers
from odradek.log.segment import UNKNOWN, Segment
from odradek.log.transaction_index import truncate_aborted

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger("odradek.log")


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """See `PartitionLog.truncate_to`.

    Raises:
        LogDamaged: the batches around the offset cannot be read.
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    assert offset >= 0
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        log.leader_epoch = log.leader_epochs.latest
        return False
    if offset < log.bases[0]:
        truncate_fully(log, offset, None)
        return True
    if offset < log.high_watermark:
        logger.warning(
            "%s is cut to offset %d, below its high watermark %d",
            log.topic_partition,
            offset,
            log.high_watermark,
        )
    try:
        _truncate(log, offset)
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error
    return True


def _truncate(log: PartitionLog, offset: int) -> None:
    log.generation += 1
    surplus = [segment for segment in log.segments if segment.base_offset > offset]
    if surplus:
        retention.remove_segments(log, surplus[::-1])
        log.storage.file_system.sync_directory(log.path)
    log.active = active = log.segments[-1]
    truncate_segment(active, offset)
    log.forget_positions()
    log.log_end_offset = offset
    log.first_dirty_offset = min(log.first_dirty_offset, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.leader_epochs.truncate_from_end(offset)
    log.leader_epoch = log.leader_epochs.latest
    rolling.set_limits(log, active)
    reload_producers(log)
    log.high_watermark = min(log.high_watermark, offset)
    log.refresh_first_unstable_offset()
    _sync(log)


def _sync(log: PartitionLog) -> None:
    """Sync the whole active segment: it may be closed without being flushed again."""
    log.recovery_point = min(log.recovery_point, log.active.base_offset)
    log.sealed_offset = min(log.sealed_offset, log.active.base_offset)
    log.active.write_indexes()
    log.is_unsynced = True
    work = FlushWork(log, log.log_end_offset, is_last=True)
    work.run()
    work.complete()
    log.sealed_offset = min(log.sealed_offset, log.active.base_offset)
    log.storage.truncated(log.directory)


def truncate_segment(segment: Segment, offset: int) -> None:
    """Drop the batch that holds `offset`, all after it, and what the indexes say of them.

    Raises:
        OSError: the device failed.
        DamagedFile: there is something else than batches.
    """
    file_system = segment.storage.file_system
    at_offset = segment.locate(offset)
    offsets, times = segment.indexes()
    relative = offset - segment.base_offset
    path = segment.path(names.OFFSET_INDEX)
    offsets.truncate(file_system, path, offsets.count_to(file_system, path, relative - 1))
    path = segment.path(names.TIME_INDEX)
    times.truncate(file_system, path, times.count_to(file_system, path, relative - 1, field=1))
    truncate_aborted(file_system, segment.path(names.TRANSACTION_INDEX), offset)
    segment.aborted = None
    if at_offset is not None:
        file = segment.file or segment.open_file()
        file_system.truncate(file.descriptor, at_offset.position)
        segment.size = at_offset.position
    if segment.size == 0:
        segment.created_ms = segment.storage.clock.now_ms()
        segment.first_timestamp = UNKNOWN
    segment.bytes_since_index = 0
    _find_max_timestamp(segment)


def _find_max_timestamp(segment: Segment) -> None:
    """The largest timestamp that is left: the index's last, or one behind it."""
    segment.max_timestamp = UNKNOWN
    segment.load_max_timestamp()
    for batch in segment.batches(segment.position_before(segment.max_timestamp_offset)):
        if batch.max_timestamp > segment.max_timestamp:
            segment.max_timestamp = batch.max_timestamp
            segment.max_timestamp_offset = batch.last_offset


def truncate_fully(log: PartitionLog, offset: int, log_start_offset: int | None) -> None:
    """See `PartitionLog.truncate_fully_and_start_at`.

    Raises:
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    logger.info("%s: all records go; the next offset is %d", log.topic_partition, offset)
    try:
        log.generation += 1
        snapshots.remove(log, list(log.snapshots))
        retention.remove_segments(log, log.segments[::-1])
        rolling.add_segment(log, offset)
        log.log_end_offset = offset
        log.first_dirty_offset = min(log.first_dirty_offset, offset)
        log.leader_epochs.clear()
        _sync(log)
    except OSError as error:
        raise log.fail("truncate", error) from error
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.leader_epoch = log.leader_epochs.latest
    log.producers = None
    log.snapshot_offset = offset
    log.high_watermark = offset
    log.refresh_first_unstable_offset()
