"""Finds offsets by timestamp for ListOffsets."""

from __future__ import annotations

from odradek.env.file_system import FileSystem
from odradek.log.errors import DamagedFile
from odradek.log.log_segments import LogSegments
from odradek.log.results import TimestampOffset
from odradek.log.scan import read_batch
from odradek.log.segment import Segment
from odradek.log.validation import decompressed_max
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError
from odradek.records.record import iterate_records

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


def find_by_time(
    segments: LogSegments, timestamp: int, start_offset: int, files: FileSystem
) -> TimestampOffset | None:
    """Find the first record whose timestamp is at or after `timestamp`.

    For `MAX_TIMESTAMP`, find the first record with the largest timestamp.

    Raises:
        ReadWouldBlock: `files` would have to wait for the device.
        DamagedFile: a batch that must be read is damaged.
        OSError: the device failed.
    """
    if timestamp == MAX_TIMESTAMP:
        latest = max(segments, key=lambda segment: segment.load_max_timestamp(files))
        if latest.max_timestamp < 0:
            return None
        return _in_segment(latest, latest.max_timestamp, latest.base_offset, files)
    for segment in segments:
        if segment.largest_timestamp(files) >= timestamp:
            return _in_segment(segment, timestamp, start_offset, files)
    return None


def _in_segment(
    segment: Segment, timestamp: int, start_offset: int, files: FileSystem
) -> TimestampOffset | None:
    """Return the first record of the segment at or after both the timestamp and the offset."""
    for place in segment.locate_timestamp(timestamp, start_offset, files):
        batch = read_batch(files, segment.opened(), place)
        if not isinstance(batch, RecordBatch):
            return TimestampOffset(batch.max_timestamp, batch.last_offset, -1)
        try:
            for record in iterate_records(batch, decompressed_max(batch)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
        except RecordsError as error:
            raise DamagedFile(f"at byte {place.position} of {segment!r}: {error}") from None
    return None
