"""Collects facts about a log for `planning` and the worker. Use it on the event loop's thread."""

from __future__ import annotations

from odradek.config.broker_config import BrokerConfig
from odradek.log.cleaner.planning import Cleanable, LogFacts, SegmentFacts
from odradek.log.cleaner.work import WorkItem
from odradek.log.partition_log import PartitionLog
from odradek.log.segment import Segment

_LAG_UNLIMITED = 2**62
_MAP_BYTES_MAX = 2**31 - 1


def facts_of(log: PartitionLog) -> LogFacts:
    """Return the facts for `planning`. Timestamps are read from files only if they are needed.

    Raises:
        OSError: the device failed.
        DamagedFile: a segment does not begin with a batch.
    """
    config = log.config
    needs_first = config.max_compaction_lag_ms < _LAG_UNLIMITED
    needs_largest = config.min_compaction_lag_ms > 0

    def segment_facts(segment: Segment) -> SegmentFacts:
        return SegmentFacts(
            segment.base_offset,
            segment.size,
            segment.load_first_timestamp() if needs_first else -1,
            segment.largest_timestamp() if needs_largest else -1,
        )

    return LogFacts(
        [segment_facts(segment) for segment in log.segments if segment is not log.active_segment],
        log.active_segment.base_offset,
        log.active_segment.size,
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        log.cleaning.first_dirty_offset,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.min_cleanable_dirty_ratio,
    )


def work_item(
    log: PartitionLog, cleanable: Cleanable, config: BrokerConfig, number: int, rate: float
) -> WorkItem:
    """Return the work item for one round over a log."""
    end_offset = cleanable.end_offset
    producers = []
    for entry in log.producers.entries.values():
        last_offset = entry.batches[-1].last_offset if entry.batches else -1
        if last_offset < end_offset:
            producers.append((entry.producer_id, last_offset, entry.epoch))
    workers = max(1, config.log_cleaner_threads)
    map_bytes = min(config.log_cleaner_dedupe_buffer_size // workers, _MAP_BYTES_MAX)
    topic = log.config
    return WorkItem(
        number=number,
        directory=log.path,
        segments=[
            (segment.base_offset, segment.size)
            for segment in log.segments
            if segment.base_offset < end_offset
        ],
        later_segments=[base for base in log.segments.bases if base >= end_offset],
        first_dirty_offset=cleanable.first_dirty_offset,
        end_offset=end_offset,
        high_watermark=log.high_watermark,
        producers=producers,
        now_ms=log.partition_directory.storage.clock.now_ms(),
        delete_retention_ms=topic.delete_retention_ms,
        segment_bytes=topic.segment_bytes,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        map_bytes=map_bytes * config.log_cleaner_io_buffer_load_factor,
        map_entries_max=None,
        buffer_bytes=config.log_cleaner_io_buffer_size // workers // 2,
        rate=rate,
    )
