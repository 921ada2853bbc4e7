"""Decides which part of a log may be cleaned, and whether the log is due.

    log start ... first dirty offset ... first uncleanable offset ... log end
        | clean: cleaned before      | dirty: to be cleaned     | not yet cleanable

These parts of a log are not cleaned:

- the active segment,
- segments with offsets at or above the last stable offset,
- the first segment with a record younger than `min.compaction.lag.ms`, and all later segments.

A log is due if the dirty part is more than `min.cleanable.dirty.ratio` of the clean and the dirty
part. A log is also due if its dirty part has a record older than `max.compaction.lag.ms`. (Apache
Kafka's `LogCleanerManager` and `LogToClean`.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

NEVER_CLEANED = -1


class SegmentFacts(NamedTuple):
    """A segment that is not the active one."""

    base_offset: int
    size: int
    first_timestamp: int
    """Largest timestamp of the first batch. It is not positive if it is unknown or not needed."""
    largest_timestamp: int
    """Largest timestamp, or the file's modification time if no record has a timestamp."""


class LogFacts(NamedTuple):
    """The input of the decision. `segments` are all inactive segments, oldest first."""

    segments: Sequence[SegmentFacts]
    active_base_offset: int
    active_size: int
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    cleaned_to: int
    """The offset up to which previous rounds have cleaned, or `NEVER_CLEANED`."""
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_dirty_ratio: float


class Cleanable(NamedTuple):
    """The clean and the dirty part of a log."""

    first_dirty_offset: int
    was_reset: bool
    """Whether `cleaned_to` was not an offset of the log. If so, all offsets count as dirty."""
    end_offset: int
    """The first offset that may not be cleaned. It is the base offset of a segment."""
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """Milliseconds by which the oldest dirty record exceeds `max.compaction.lag.ms`, or 0."""

    @property
    def dirty_ratio(self) -> float:
        """The size of the dirty part, divided by the size of both parts. From 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_dirty_ratio: float) -> bool:
        """Return whether the log should be cleaned."""
        return (self.overdue_ms > 0 and self.dirty_bytes > 0) or self.dirty_ratio > min_dirty_ratio


def find_cleanable(facts: LogFacts, now_ms: int) -> Cleanable:
    """Divide a log into the clean part, the dirty part, and the part that may not be cleaned."""
    first_dirty = facts.cleaned_to
    was_reset = False
    if first_dirty == NEVER_CLEANED:
        first_dirty = facts.log_start_offset
    elif not facts.log_start_offset <= first_dirty <= facts.log_end_offset:
        first_dirty = facts.log_start_offset
        was_reset = True
    bases = [segment.base_offset for segment in facts.segments]
    dirty: Sequence[SegmentFacts] = ()
    if first_dirty < facts.active_base_offset:
        dirty = facts.segments[_holding(bases, first_dirty) :]
    uncleanable = min(facts.last_stable_offset, facts.active_base_offset)
    if facts.min_compaction_lag_ms > 0:
        youngest = now_ms - facts.min_compaction_lag_ms
        for segment in dirty:
            if segment.largest_timestamp > youngest:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    uncleanable = max(first_dirty, uncleanable)
    number = _holding(bases, uncleanable)
    if uncleanable < facts.active_base_offset and number < len(bases):
        end_offset = bases[number]
    else:
        end_offset = facts.active_base_offset
        number = len(bases)
    first = _holding(bases, first_dirty) if first_dirty < end_offset else number
    clean_bytes = sum(segment.size for segment in facts.segments[: bisect_left(bases, first_dirty)])
    if facts.active_base_offset < first_dirty:
        clean_bytes += facts.active_size
    return Cleanable(
        first_dirty,
        was_reset,
        end_offset,
        clean_bytes,
        sum(segment.size for segment in facts.segments[first:number]),
        _overdue_ms(dirty, facts.max_compaction_lag_ms, now_ms),
    )


def _holding(bases: Sequence[int], offset: int) -> int:
    """Return the number of the segment that may have the offset; 0 if all segments are later."""
    return max(0, bisect_right(bases, offset) - 1)


def _overdue_ms(dirty: Sequence[SegmentFacts], max_compaction_lag_ms: int, now_ms: int) -> int:
    oldest = min(
        (segment.first_timestamp for segment in dirty if segment.first_timestamp > 0), default=None
    )
    if oldest is None:
        return 0
    return max(0, now_ms - max_compaction_lag_ms - oldest)
