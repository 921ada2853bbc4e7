"""Decides when a log rolls to a new segment (`LogSegment.shouldRoll` in Apache Kafka).

A log rolls before a batch is appended if:
- the batch would make the active segment larger than `segment.bytes`;
- the batch is newer than the segment's first batch by more than `segment.ms` minus a random part of
  `segment.jitter.ms`. The times are the timestamps of the records. If they have no timestamps, the
  clock is used instead;
- an index is full (`segment.index.bytes`);
- the batch's last offset is too far from the segment's base offset for an index entry.
"""

from __future__ import annotations

from odradek.config.topic_config import TopicConfig
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.records.checksum import crc32c


class RollPolicy:
    """The limits of a segment according to the topic's settings. Immutable."""

    __slots__ = (
        "_jitter_max_ms",
        "index_interval_bytes",
        "offset_entries_max",
        "preallocated_bytes",
        "segment_age_max_ms",
        "segment_bytes",
        "time_entries_max",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.segment_bytes = config.segment_bytes
        self.segment_age_max_ms = config.segment_age_max_ms
        self._jitter_max_ms = min(config.segment_jitter_ms, config.segment_age_max_ms)
        self.index_interval_bytes = config.index_interval_bytes
        self.offset_entries_max = config.segment_index_bytes // OffsetIndex.ENTRY.size
        self.time_entries_max = config.segment_index_bytes // TimeIndex.ENTRY.size - 1
        self.preallocated_bytes = config.segment_bytes if config.preallocate else 0

    def age_max_ms(self, name: str) -> int:
        """Return the maximum time between the first and the last batch of a segment, in ms.

        `name` is the segment's name. The jitter depends only on the name, so that every call
        returns the same value.
        """
        if self._jitter_max_ms <= 0:
            return self.segment_age_max_ms
        return self.segment_age_max_ms - crc32c(name.encode()) % self._jitter_max_ms
