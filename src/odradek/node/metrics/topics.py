"""The metrics of topics: `kafka.server:type=BrokerTopicMetrics`."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.partitions.partition import Partition
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, meter, one

_PATTERN = "kafka.server:type=BrokerTopicMetrics,name="


def topics(node: BrokerSources) -> Iterator[Metric]:
    """Yield what was appended and fetched, for each topic and for all together."""
    by_topic = {
        name: list(each.values()) for name, each in list(node.broker.replicas.by_name.items())
    }
    for name, text, read in (
        ("MessagesInPerSec", "Records appended.", _records_in),
        ("BytesInPerSec", "Bytes of record batches appended.", _bytes_in),
        ("BytesOutPerSec", "Bytes of record batches sent to consumers.", _bytes_out),
    ):
        sums = {topic: sum(map(read, each)) for topic, each in by_topic.items()}
        rows = [((topic,), total) for topic, total in sums.items()]
        yield meter(f"{_PATTERN}{name},topic=*", text, rows)
        yield meter(f"{_PATTERN}{name}", text, one(sum(sums.values())))
    everything = [each for partitions in by_topic.values() for each in partitions]
    yield meter(
        f"{_PATTERN}ReplicationBytesInPerSec",
        "Bytes of record batches fetched from leaders.",
        one(sum(each.replication_bytes_in for each in everything)),
    )
    yield meter(
        f"{_PATTERN}ReplicationBytesOutPerSec",
        "Bytes of record batches sent to followers.",
        one(sum(each.replication_bytes_out for each in everything)),
    )


def _records_in(partition: Partition) -> int:
    return partition.records_in


def _bytes_in(partition: Partition) -> int:
    return partition.bytes_in


def _bytes_out(partition: Partition) -> int:
    return partition.bytes_out
