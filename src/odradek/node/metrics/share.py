"""The metrics of share groups."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.share.local import LocalSharePartition
from odradek.core.share.states import ACCEPT, REJECT, RELEASE, RENEW
from odradek.model.topic_name import SHARE_STATE_TOPIC
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import (
    Metric,
    Tags,
    attribute,
    gauge,
    meter,
    one,
    own,
    own_count,
    rate,
    timer,
)

_TYPES = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
_KEYS = ("group", "topic", "partition")
_GROUPS = "kafka.server:type=ShareGroupMetrics,name="
_PARTITIONS = "kafka.server:type=SharePartitionMetrics,name={},group=*,topic=*,partition=*"


def _found(node: BrokerSources) -> list[tuple[Tags, LocalSharePartition]]:
    return [
        ((local.group_id, local.partition.topic, str(local.partition.index)), local)
        for local in list(node.broker.share_partitions)
    ]


def share_groups(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of share sessions and share partitions."""
    manager = node.broker.share_partitions
    sessions = manager.sessions
    pattern = "kafka.server:type=ShareSessionCache,name="
    yield gauge(f"{pattern}ShareSessionsCount", "Share sessions.", one(len(sessions)))
    yield gauge(
        f"{pattern}SharePartitionsCount",
        "Partitions in share sessions.",
        one(sessions.partition_count),
    )
    yield meter(
        f"{pattern}ShareSessionEvictionsPerSec",
        "Share sessions whose connection was closed.",
        one(sessions.evictions),
    )
    acknowledged = dict(manager.acknowledged)
    yield meter(
        f"{_GROUPS}RecordAcknowledgementsPerSec,ackType=*",
        "Acknowledged records.",
        [((name,), acknowledged.get(kind, 0)) for kind, name in _TYPES.items()],
    )
    found = _found(node)
    yield gauge(
        _PARTITIONS.format("InFlightMessageCount"),
        "Records in flight.",
        [(tags, each.machine.in_flight_count) for tags, each in found],
    )
    yield gauge(
        _PARTITIONS.format("InFlightBatchCount"),
        "Batches in flight.",
        [(tags, each.machine.batch_count) for tags, each in found],
    )
    yield meter(
        _PARTITIONS.format("AcquisitionLockTimeoutPerSec"),
        "Records whose lock has expired.",
        [(tags, each.expired_count) for tags, each in found],
    )
    yield own(
        "odradek_share_partition_start_offset",
        "First offset of a share partition that is not complete.",
        [(tags, each.machine.start_offset) for tags, each in found],
        *_KEYS,
    )
    yield own(
        "odradek_share_partition_waiting_fetches",
        "ShareFetch requests that wait for records of a share partition.",
        [(tags, len(each.waiters)) for tags, each in found],
        *_KEYS,
    )


def topics(node: BrokerSources) -> Iterator[Metric]:
    """Yield the fetches and acknowledgements of each topic."""
    counts = node.broker.share_partitions.topic_counts
    names = {
        topic_id: next(iter(partitions.values())).topic
        for topic_id, partitions in list(node.broker.replicas.by_id.items())
        if partitions
    }
    for name, text, by_id in (
        ("TotalShareFetchRequestsPerSec", "ShareFetch requests.", counts.fetches),
        (
            "FailedShareFetchRequestsPerSec",
            "ShareFetch requests that got an error for a partition before it was read.",
            counts.failed_fetches,
        ),
        (
            "TotalShareAcknowledgementRequestsPerSec",
            "Requests with acknowledgements.",
            counts.acknowledgements,
        ),
        (
            "FailedShareAcknowledgementRequestsPerSec",
            "Requests with acknowledgements that were rejected for a partition.",
            counts.failed_acknowledgements,
        ),
    ):
        found = dict(by_id)
        pattern = f"kafka.server:type=BrokerTopicMetrics,name={name}"
        rows = [((names[key],), count) for key, count in found.items() if key in names]
        yield meter(f"{pattern},topic=*", text, rows)
        yield meter(pattern, text, one(sum(found.values())))
    yield timer(
        f"{_GROUPS}PartitionLoadTimeMs",
        "Milliseconds that it took to load share partitions.",
        one(node.broker.share_partitions.load_times.read(0.001)),
    )


def coordinator(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the share coordinator."""
    found = node.broker.coordinators.shares
    pattern = "kafka.server:type=share-coordinator-metrics"
    text = "States of share partitions that were written."
    yield attribute(pattern, "write-total", text, one(found.writes))
    yield rate(pattern, "write-rate", text, one(found.writes))
    mean, largest = found.write_times.read(node.broker.clock.monotonic_ms())
    for ending, value in (("avg", mean), ("max", largest)):
        yield attribute(
            pattern,
            f"write-latency-{ending}",
            "Milliseconds until a written state was committed, in the last minute.",
            one(value),
        )
    yield attribute(
        f"{pattern},topic=*,partition=*",
        "last-pruned-offset",
        "The offset before which the records of a partition were last deleted.",
        [((SHARE_STATE_TOPIC, str(index)), offset) for index, offset in found.pruned().items()],
    )


def records(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the records in flight."""
    counted = [(tags, each, each.machine.census()) for tags, each in _found(node)]
    yield own(
        "odradek_share_partition_acquired_records",
        "Records that members have acquired.",
        [(tags, census.acquired) for tags, _, census in counted],
        *_KEYS,
    )
    yield own(
        "odradek_share_partition_released_records",
        "Records that were delivered, and wait for another delivery.",
        [(tags, census.available) for tags, _, census in counted],
        *_KEYS,
    )
    yield own(
        "odradek_share_partition_deferred_records",
        "Records that wait for their time, or for the end of a back-off.",
        [(tags, census.deferred) for tags, _, census in counted],
        *_KEYS,
    )
    yield own(
        "odradek_share_partition_deliveries",
        "Acquired and released records, by the number of their deliveries.",
        [
            ((*tags, str(deliveries)), number)
            for tags, _, census in counted
            for deliveries, number in sorted(census.deliveries.items())
        ],
        *_KEYS,
        "deliveries",
    )
    yield own(
        "odradek_share_partition_oldest_lock_seconds",
        "Age of the oldest acquisition lock.",
        [
            (tags, each.lock_age_ms(census.first_expiration_ms) / 1000)
            for tags, each, census in counted
            if census.first_expiration_ms is not None
        ],
        *_KEYS,
    )


def dead_letters(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of dead letters, for each group that has had some."""
    writer = node.broker.share_partitions.dead_letters
    for name, counter, text in (
        ("DeadLetterQueueRecordCount", writer.written, "Dead letters."),
        (
            "DeadLetterQueueTotalProduceRequestsPerSec",
            writer.appends,
            "Attempts to append dead letters.",
        ),
        (
            "DeadLetterQueueFailedProduceRequestsPerSec",
            writer.failed_appends,
            "Appends that were given up.",
        ),
    ):
        rows = [((group,), number) for group, number in list(counter.items())]
        yield meter(f"{_GROUPS}{name},group=*", text, rows)
    yield own_count(
        "odradek_share_dead_letters_lost",
        "Dead letters that were not written.",
        [((group,), number) for group, number in list(writer.lost.items())],
        "group",
    )
