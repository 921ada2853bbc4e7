"""When the active segment is followed by a new one (`LogSegment.shouldRoll` in Apache Kafka).

A new segment begins when the next batch would make the active one larger than `segment.bytes`,
when the batch is later than the segment's first one by more than `segment.ms` less a random part of
`segment.jitter.ms` (by the records' timestamps; by the clock where they have none), when an index
is full (`segment.index.bytes`), or when the batch's last offset is too far from the base offset for
an index entry.
"""

from __future__ import annotations

from odradek.config.topic_config import TopicConfig
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.records.checksum import crc32c


class RollPolicy:
    """The limits of a segment that follow from the topic's settings. Immutable."""

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
        """How much later than its first batch a segment of that name may take a batch.

        The jitter is the same for a segment whenever it is asked for.
        """
        if self._jitter_max_ms <= 0:
            return self.segment_age_max_ms
        return self.segment_age_max_ms - crc32c(name.encode()) % self._jitter_max_ms
