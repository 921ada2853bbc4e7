"""Deletes segments that nobody is to read any more, from the oldest on.

Because they are below the log start offset, because the log is larger than `retention.bytes`,
or because their newest record is older than `retention.ms`. Never at or above the high
watermark, and never the last segment without a new one after it.

A deleted segment's files get the suffix `.deleted` and are removed after
`file.delete.delay.ms`; who reads from one keeps it open until then and beyond.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.log import names, rolling, snapshots
from odradek.log.appending import check_online
from odradek.log.errors import DiskFull
from odradek.log.segment import Segment

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger("odradek.log")


def advance_log_start_offset(log: PartitionLog, offset: int) -> bool:
    """The log starts at `offset`, if that is further than now.

    The segments below go with the next `delete_old_segments`.
    """
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.high_watermark = max(log.high_watermark, offset)
    log.leader_epochs.truncate_from_start(offset)
    log.forget_positions()
    producers = log.producers
    if producers is not None:
        producers.on_high_watermark(offset)
    log.refresh_first_unstable_offset()
    return True


def delete_old_segments(log: PartitionLog) -> int:
    """See `PartitionLog.delete_old_segments`.

    Raises:
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    if log.is_cleaning:
        return 0  # the next round finds them
    try:
        deleted = _delete(log, _below_log_start(log), "below the log start offset")
        if log.config.is_deleted:
            deleted += _delete(log, _too_much(log), "above retention.bytes")
            deleted += _delete(log, _too_old(log), "older than retention.ms")
    except OSError as error:
        raise log.refuse("delete segments of", error) from error
    return deleted


def _below_log_start(log: PartitionLog) -> list[Segment]:
    return _while(log, lambda _, end: end <= log.log_start_offset, keep_last=True)


def _too_much(log: PartitionLog) -> list[Segment]:
    limit = log.config.retention_bytes
    if limit < 0:
        return []
    surplus = log.size - limit

    def goes(segment: Segment, _end: int) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return _while(log, goes)


def _too_old(log: PartitionLog) -> list[Segment]:
    limit_ms = log.config.retention_ms
    if limit_ms < 0:
        return []
    now_ms = log.storage.clock.now_ms()
    return _while(log, lambda segment, _: now_ms - segment.largest_timestamp() > limit_ms)


def _while(
    log: PartitionLog, goes: Callable[[Segment, int], bool], keep_last: bool = False
) -> list[Segment]:
    """The oldest segments for which `goes(segment, offset after it)` is true."""
    found = []
    ends = [*log.bases[1:], log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        is_last = segment is log.active
        if is_last and (keep_last or segment.size == 0):
            break
        if end > log.high_watermark or not goes(segment, end):
            break
        found.append(segment)
    return found


def _delete(log: PartitionLog, segments: list[Segment], why: str) -> int:
    if not segments:
        return 0
    if segments[-1] is log.active:
        try:
            rolling.roll(log, log.log_end_offset)
        except DiskFull:
            segments.pop()  # it goes next time, in the room that the others leave
    remaining = log.bases[len(segments)]
    advance_log_start_offset(log, remaining)
    for segment in segments:
        logger.info("%s: %r goes, %s", log.topic_partition, segment, why)
    remove_segments(log, segments)
    return len(segments)


def remove_segments(log: PartitionLog, segments: list[Segment]) -> None:
    """Take segments out of the log, and their files out of the directory after the delay.

    Raises:
        OSError: the device failed.
    """
    gone = set(segments)
    log.segments = [segment for segment in log.segments if segment not in gone]
    log.bases = [segment.base_offset for segment in log.segments]
    paths = []
    for segment in segments:
        segment.rename(names.DELETED)
        paths += [segment.path(kind) for kind in names.SEGMENT_KINDS]
        segment.close_file()
    log.storage.remove_later(paths, log.config.file_delete_delay_ms)
    snapshots.remove(log, [segment.base_offset for segment in segments])
    log.is_unsynced = True
