"""What was appended, fetched and rejected: counters of partitions, added up by topic.

Each partition counts for itself. When it leaves this broker, its counts are kept, so that the sums do
not decrease: those of its topic while the topic has other partitions here, and those of all topics
always.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.broker.partitions.partition import Partition


class TopicCounts(NamedTuple):
    """The counters, with the names of the fields of `Partition`."""

    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_in: int = 0
    reassignment_bytes_out: int = 0
    appends: int = 0
    failed_appends: int = 0
    bytes_rejected: int = 0
    fetches: int = 0
    failed_fetches: int = 0

    def plus(self, other: Iterable[int]) -> TopicCounts:
        """Return the sums."""
        return TopicCounts(*map(int.__add__, self, other))


def counts_of(partition: Partition) -> TopicCounts:
    """Return what a partition has counted."""
    return TopicCounts(
        partition.records_in,
        partition.bytes_in,
        partition.bytes_out,
        partition.replication_bytes_in,
        partition.replication_bytes_out,
        partition.reassignment_bytes_in,
        partition.reassignment_bytes_out,
        partition.appends,
        partition.failed_appends,
        partition.bytes_rejected,
        partition.fetches,
        partition.failed_fetches,
    )


class Departed:
    """The counts of partitions that have left this broker."""

    def __init__(self) -> None:
        self.of_topics: dict[str, TopicCounts] = {}
        """Topics that have other partitions on this broker."""
        self.of_others = TopicCounts()

    def add(self, partition: Partition, *, is_last: bool) -> None:
        """Keep the counts of a partition. `is_last`: its topic has no other partition here."""
        topic = partition.topic
        counts = self.of_topics.pop(topic, TopicCounts()).plus(counts_of(partition))
        if is_last:
            self.of_others = self.of_others.plus(counts)
        else:
            self.of_topics[topic] = counts
