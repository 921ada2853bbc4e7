"""Decides, from facts about a log, which part of it may be cleaned and whether it is due.

    log start ... first dirty offset ... first uncleanable offset ... log end
        | clean: cleaned before      | dirty: to be cleaned     | not yet

Not cleaned are the active segment, offsets at or above the last stable offset (which is not above
the high watermark), and all segments from the first one that has a record younger than
`min.compaction.lag.ms`.

A log is cleaned when the dirty part is more than `min.cleanable.dirty.ratio` of both parts, or
when it has a record older than `max.compaction.lag.ms`; the log with the largest ratio comes
first. (Apache Kafka's `LogCleanerManager` and `LogToClean`.)
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
    """Largest timestamp of the first batch; 0 or negative if there is none or it is not needed."""
    largest_timestamp: int
    """Timestamp of the newest record; the file's modification time if records have none."""


class LogFacts(NamedTuple):
    """Input of the decision; `segments` are all but the active one, oldest first."""

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
    """The parts of a log."""

    first_dirty_offset: int
    was_reset: bool
    """`cleaned_to` was not an offset of the log: all of it counts as dirty."""
    end_offset: int
    """The first offset that may not be cleaned; a segment begins there."""
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """Milliseconds by which the oldest record exceeds `max.compaction.lag.ms`; 0 if it does not."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of what may be cleaned, in bytes, from 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_dirty_ratio: float) -> bool:
        """Whether the log should be cleaned."""
        return (self.overdue_ms > 0 and self.dirty_bytes > 0) or self.dirty_ratio > min_dirty_ratio


def find_cleanable(facts: LogFacts, now_ms: int) -> Cleanable:
    """Divide the log into its clean, dirty and not yet cleanable parts."""
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
    """The index of the segment that may hold the offset; that of the first if it is before all."""
    return max(0, bisect_right(bases, offset) - 1)


def _overdue_ms(dirty: Sequence[SegmentFacts], max_compaction_lag_ms: int, now_ms: int) -> int:
    oldest = min(
        (segment.first_timestamp for segment in dirty if segment.first_timestamp > 0), default=None
    )
    if oldest is None:
        return 0
    return max(0, now_ms - max_compaction_lag_ms - oldest)
