"""Answers to questions about a log: offsets by time, and its producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.log.appending import check_online
from odradek.log.errors import DamagedFile
from odradek.log.producer_state import NONE
from odradek.log.results import ProducerDescription, TimestampOffset
from odradek.log.scan import read_batch
from odradek.log.segment import Segment
from odradek.log.validation import decompressed_max
from odradek.records.batch import NO_TIMESTAMP, RecordBatch
from odradek.records.errors import RecordsError
from odradek.records.record import iterate_records

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """See `PartitionLog.offset_for_timestamp`.

    Raises:
        LogDamaged: a batch that has to be read is damaged.
        LogDirectoryOffline: the disk failed, now or before.
    """
    check_online(log)
    start = log.log_start_offset
    if timestamp == LATEST:
        return TimestampOffset(NO_TIMESTAMP, log.log_end_offset, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(NO_TIMESTAMP, start, log.leader_epochs.epoch_for(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return TimestampOffset(NO_TIMESTAMP, -1, -1)  # nothing is in tiered storage
    try:
        if timestamp == MAX_TIMESTAMP:
            return _with_max_timestamp(log)
        for segment in log.segments:
            if segment.largest_timestamp() >= timestamp:
                return _in_segment(log, segment, timestamp, start)
    except (OSError, DamagedFile) as error:
        raise log.unreadable(error) from error
    return None


def _with_max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    latest = max(log.segments, key=Segment.load_max_timestamp)
    if latest.max_timestamp < 0:
        return None
    return _in_segment(log, latest, latest.max_timestamp, latest.base_offset)


def _in_segment(
    log: PartitionLog, segment: Segment, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record of the segment at or after both the time and the offset."""
    for place in segment.locate_timestamp(timestamp, start_offset):
        file = segment.file or segment.open_file()
        batch = read_batch(log.storage.reads, file, place)
        if not isinstance(batch, RecordBatch):
            return TimestampOffset(batch.max_timestamp, batch.last_offset, -1)
        try:
            for record in iterate_records(batch, decompressed_max(batch)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
        except RecordsError as error:
            raise DamagedFile(f"at byte {place.position} of {segment!r}: {error}") from None
    return None


def active_producers(log: PartitionLog) -> list[ProducerDescription]:
    """See `PartitionLog.active_producers`."""
    if log.producers is None:
        return []
    return [
        ProducerDescription(
            entry.producer_id,
            entry.epoch,
            entry.batches[-1].last_sequence if entry.batches else NONE,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in log.producers.entries.values()
    ]
