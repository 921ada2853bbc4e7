"""Decides which segments retention deletes. The oldest segments are deleted first.

- Segments below the log start offset are deleted.
- The oldest segments are deleted if the log has at least `retention.bytes` without them.
- Segments whose newest record is older than `retention.ms` are deleted.

A segment that ends above the high watermark is never deleted. If the active segment will be
deleted, the log rolls first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.config.topic_config import TopicConfig
from odradek.log.log_segments import LogSegments
from odradek.log.segment import Segment


def surplus(
    segments: LogSegments,
    config: TopicConfig,
    log_start_offset: int,
    now_ms: int,
    high_watermark: int,
    end_offset: int,
) -> Iterator[tuple[list[Segment], str]]:
    """Yield the segments to delete, and the reason. Each step sees the deletions before it.

    Raises:
        OSError: the device failed.
    """
    mark, end = high_watermark, end_offset
    yield below_log_start(segments, log_start_offset, mark, end), "below the log start offset"
    if config.is_deleted:
        yield above_size(segments, config.retention_bytes, mark, end), "above retention.bytes"
        yield above_age(segments, config.retention_ms, now_ms, mark, end), "older than retention.ms"


def below_log_start(
    segments: LogSegments, log_start_offset: int, high_watermark: int, end_offset: int
) -> list[Segment]:
    """Return segments that end at or below the log start offset, but not the active segment."""
    found = _oldest_while(
        segments, high_watermark, end_offset, lambda _, end: end <= log_start_offset
    )
    return [segment for segment in found if segment is not segments.active]


def above_size(
    segments: LogSegments, retention_bytes: int, high_watermark: int, end_offset: int
) -> list[Segment]:
    """Return the oldest segments without which the log still has at least `retention_bytes`.

    Return none if `retention_bytes` is negative.
    """
    if retention_bytes < 0:
        return []
    surplus = segments.size - retention_bytes

    def goes(segment: Segment, _end: int) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return _oldest_while(segments, high_watermark, end_offset, goes)


def above_age(
    segments: LogSegments, retention_ms: int, now_ms: int, high_watermark: int, end_offset: int
) -> list[Segment]:
    """Return segments whose newest record is older than `retention_ms`.

    Return none if `retention_ms` is negative.

    Raises:
        OSError: the device failed.
    """
    if retention_ms < 0:
        return []
    return _oldest_while(
        segments,
        high_watermark,
        end_offset,
        lambda segment, _: now_ms - segment.largest_timestamp() > retention_ms,
    )


def _oldest_while(
    segments: LogSegments,
    high_watermark: int,
    end_offset: int,
    goes: Callable[[Segment, int], bool],
) -> list[Segment]:
    """Return the oldest segments until `goes(segment, end offset of the segment)` is false."""
    found = []
    ends = [*segments.bases[1:], end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if segment is segments.active and segment.size == 0:
            break
        if end > high_watermark or not goes(segment, end):
            break
        found.append(segment)
    return found
