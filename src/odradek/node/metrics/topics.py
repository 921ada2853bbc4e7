"""The metrics of topics: `kafka.server:type=BrokerTopicMetrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.broker.partitions.topic_counters import TopicCounts, counts_of
from odradek.log.errors import Rejection
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, meter, one

_PATTERN = "kafka.server:type=BrokerTopicMetrics,name="
_NEVER_CONVERTED = "Always 0: Odradek converts no records to other formats, as Apache Kafka 4."

_BY_TOPIC: tuple[tuple[str, str, Callable[[TopicCounts], int]], ...] = (
    ("MessagesInPerSec", "Records appended.", lambda each: each.records_in),
    ("BytesInPerSec", "Bytes of record batches appended.", lambda each: each.bytes_in),
    ("BytesOutPerSec", "Bytes of record batches sent to consumers.", lambda each: each.bytes_out),
    (
        "BytesRejectedPerSec",
        "Bytes of record batches above max.message.bytes.",
        lambda each: each.bytes_rejected,
    ),
    (
        "TotalProduceRequestsPerSec",
        "Record batches of producers and coordinators for a partition.",
        lambda each: each.appends,
    ),
    (
        "FailedProduceRequestsPerSec",
        "Record batches that were not appended, without those that were too large or damaged, that "
        "were sent to the wrong broker, or for which there was no room on the disk.",
        lambda each: each.failed_appends,
    ),
    (
        "TotalFetchRequestsPerSec",
        "Reads of a partition for Fetch requests. Partitions of a fetch session that have not changed "
        "are not read.",
        lambda each: each.fetches,
    ),
    (
        "FailedFetchRequestsPerSec",
        "Reads of a partition that have failed for an unexpected reason, such as damaged records, "
        "without those by clients with an outdated view or for an offset that the partition lacks.",
        lambda each: each.failed_fetches,
    ),
    ("ProduceMessageConversionsPerSec", _NEVER_CONVERTED, lambda each: 0),
    ("FetchMessageConversionsPerSec", _NEVER_CONVERTED, lambda each: 0),
)
_OF_ALL: tuple[tuple[str, str, Callable[[TopicCounts], int]], ...] = (
    (
        "ReplicationBytesInPerSec",
        "Bytes of record batches fetched from leaders.",
        lambda each: each.replication_bytes_in,
    ),
    (
        "ReplicationBytesOutPerSec",
        "Bytes of record batches sent to followers.",
        lambda each: each.replication_bytes_out,
    ),
    (
        "ReassignmentBytesInPerSec",
        "Bytes of record batches fetched for replicas that are added.",
        lambda each: each.reassignment_bytes_in,
    ),
    (
        "ReassignmentBytesOutPerSec",
        "Bytes of record batches sent to replicas that are added.",
        lambda each: each.reassignment_bytes_out,
    ),
)
_REJECTIONS = (
    (
        "NoKeyCompactedTopicRecordsPerSec",
        "Record batches for compacted topics without keys.",
        Rejection.NO_KEY,
    ),
    (
        "InvalidMagicNumberRecordsPerSec",
        "Record batches of formats that are not supported.",
        Rejection.FORMAT,
    ),
    (
        "InvalidMessageCrcRecordsPerSec",
        "Record batches with a wrong checksum or size.",
        Rejection.CHECKSUM,
    ),
    (
        "InvalidOffsetOrSequenceRecordsPerSec",
        "Record batches with impossible offsets or sequence numbers.",
        Rejection.OFFSET_OR_SEQUENCE,
    ),
)


def topics(node: BrokerSources) -> Iterator[Metric]:
    """Yield what was appended and fetched, for each topic and for all together."""
    departed = node.broker.replicas.departed
    sums: dict[str, TopicCounts] = {}
    for name, partitions in list(node.broker.replicas.by_name.items()):
        total = departed.of_topics.get(name, TopicCounts())
        for each in list(partitions.values()):
            total = total.plus(counts_of(each))
        sums[name] = total
    everything = departed.of_others
    for counts in sums.values():
        everything = everything.plus(counts)
    for name, text, read in _BY_TOPIC:
        rows = [((topic,), read(counts)) for topic, counts in sums.items()]
        yield meter(f"{_PATTERN}{name},topic=*", text, rows)
        yield meter(f"{_PATTERN}{name}", text, one(read(everything)))
    for name, text, read in _OF_ALL:
        yield meter(f"{_PATTERN}{name}", text, one(read(everything)))


def rejections(node: BrokerSources) -> Iterator[Metric]:
    """Yield how many batches were invalid."""
    sums = dict.fromkeys(Rejection, 0)
    for partition in list(node.broker.replicas):
        for rejection, count in (partition.rejections or {}).items():
            sums[rejection] += count
    for name, text, rejection in _REJECTIONS:
        yield meter(f"{_PATTERN}{name}", text, one(sums[rejection]))
