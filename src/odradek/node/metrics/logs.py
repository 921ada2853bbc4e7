"""The metrics of log directories, of reads from the disk, and of the cleaner."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, gauge, one, own_count, timer


def directories(node: BrokerSources) -> Iterator[Metric]:
    """Yield the states of the log directories."""
    found = node.broker.storage.logs.directories
    pattern = "kafka.log:type=LogManager,name="
    yield gauge(
        f"{pattern}OfflineLogDirectoryCount",
        "Log directories that have failed.",
        one(sum(each.is_offline for each in found)),
    )
    yield gauge(
        f"{pattern}LogDirectoryOffline,logDirectory=*",
        "1 if a log directory has failed.",
        [((each.path,), int(each.is_offline)) for each in found],
    )


def flushes(node: BrokerSources) -> Iterator[Metric]:
    """Yield the times of flushes."""
    yield timer(
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        "Milliseconds that flushes of partitions took. Quantiles are upper bounds, exact to a factor "
        "of 2.",
        one(node.broker.storage.logs.storage.flush_times.read(0.001)),
    )


def cold_reads(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of fetches whose records were not in the page cache."""
    reads = node.broker.cold_reads
    yield own_count(
        "odradek_cold_reads", "Fetch responses that waited for the disk.", one(reads.answers)
    )
    yield own_count(
        "odradek_cold_read_bytes",
        "Bytes that these responses had to read from the disk.",
        one(reads.bytes),
    )


def cleaner(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the log cleaner."""
    found = node.broker.storage.logs.cleaner
    if found is None:
        return
    last = found.statistics
    waited_ms = max(0, node.broker.clock.now_ms() - last.last_look_ms)
    for name, text, value in (
        (
            "LogCleaner,name=max-clean-time-secs",
            "Seconds that the last compaction took.",
            last.elapsed_ms / 1000,
        ),
        (
            "LogCleaner,name=cleaner-recopy-percent",
            "Bytes that the last compaction wrote, in percent of the bytes that it read.",
            100 * last.recopy_ratio,
        ),
        (
            "LogCleaner,name=max-buffer-utilization-percent",
            "Percentage of the table of keys that the last compaction used.",
            100 * last.map_utilization,
        ),
        (
            "LogCleaner,name=max-compaction-delay-secs",
            "Seconds by which the last compaction exceeded max.compaction.lag.ms, or 0.",
            last.max_compaction_delay_ms / 1000,
        ),
        (
            "LogCleanerManager,name=max-dirty-percent",
            "Highest percentage of uncompacted bytes in a log.",
            100 * last.max_dirty_ratio,
        ),
        (
            "LogCleanerManager,name=time-since-last-run-ms",
            "Milliseconds since the cleaner last checked all logs.",
            waited_ms,
        ),
    ):
        yield gauge(f"kafka.log:type={name}", text, one(value))
    yield gauge(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=*",
        "Partitions whose compaction failed.",
        [((path,), count) for path, count in found.uncleanable.items()],
    )
    yield own_count("odradek_log_cleaner_rounds", "Compactions.", one(last.rounds))
    yield own_count(
        "odradek_log_cleaner_deaths", "Workers that died during a compaction.", one(last.deaths)
    )
