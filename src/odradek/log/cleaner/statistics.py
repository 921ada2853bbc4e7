"""Statistics of the cleaner for the metrics of Apache Kafka's `LogCleaner` and its manager."""

from __future__ import annotations

from odradek.log.cleaner.work import Done


class CleanerStatistics:
    """The statistics. Fields without a comment have the values of the last round over a log."""

    __slots__ = (
        "bytes_read",
        "bytes_written",
        "deaths",
        "elapsed_ms",
        "last_look_ms",
        "map_utilization",
        "max_compaction_delay_ms",
        "max_dirty_ratio",
        "rounds",
    )

    def __init__(self, now_ms: int) -> None:
        self.last_look_ms = now_ms
        """The time at which all logs were last examined."""
        self.max_dirty_ratio = 0.0
        """The highest dirty ratio of a log at that time."""
        self.map_utilization = 0.0
        self.elapsed_ms = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.max_compaction_delay_ms = 0
        """The time by which the last log exceeded `max.compaction.lag.ms`."""
        self.rounds = 0
        """The number of rounds since the start of the node."""
        self.deaths = 0
        """The number of workers that have died since the start of the node."""

    def looked(self, now_ms: int, max_dirty_ratio: float) -> None:
        """Record that all logs were examined."""
        self.last_look_ms = now_ms
        self.max_dirty_ratio = max_dirty_ratio

    def begun(self, overdue_ms: int) -> None:
        """Record that a round over a log begins."""
        self.max_compaction_delay_ms = overdue_ms

    def died(self) -> None:
        """Record that a worker has died."""
        self.deaths += 1

    def cleaned(self, done: Done) -> None:
        """Record a completed round."""
        self.rounds += 1
        self.map_utilization = done.map_utilization
        self.elapsed_ms = done.elapsed_ms
        self.bytes_read = done.bytes_read
        self.bytes_written = done.bytes_written

    @property
    def recopy_ratio(self) -> float:
        """Number of bytes written for each byte read."""
        return self.bytes_written / max(1, self.bytes_read)
