"""The metrics of each partition: `kafka.log:type=Log` and `kafka.cluster:type=Partition`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.broker.partitions.partition import Partition
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, gauge, own


def missing_for_min_isr(partition: Partition) -> int:
    """Return how many in-sync replicas are missing for min.insync.replicas; negative if none."""
    registration = partition.registration
    needed = min(partition.log.config.min_insync_replicas, len(registration.replicas))
    return needed - len(registration.isr)


def logs(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the logs."""
    found = [((each.topic, str(each.index)), each.log) for each in list(node.broker.replicas)]
    for name, text, read in (
        ("Size", "Bytes of a partition's log.", lambda each: each.size),
        ("LogStartOffset", "First offset of a partition.", lambda each: each.log_start_offset),
        ("LogEndOffset", "Offset of the next record.", lambda each: each.log_end_offset),
        ("NumLogSegments", "Segments of a partition.", lambda each: len(each.segments)),
    ):
        rows = [(tags, read(each)) for tags, each in found]
        yield gauge(f"kafka.log:type=Log,name={name},topic=*,partition=*", text, rows)


def _is_under_replicated(partition: Partition) -> int:
    registration = partition.registration
    return int(partition.is_leader and len(registration.isr) < len(registration.replicas))


def _is_under_min_isr(partition: Partition) -> int:
    return int(partition.is_leader and missing_for_min_isr(partition) > 0)


def _is_at_min_isr(partition: Partition) -> int:
    return int(partition.is_leader and missing_for_min_isr(partition) == 0)


def _replicas(partition: Partition) -> int:
    return len(partition.registration.replicas) if partition.is_leader else 0


def _in_sync(partition: Partition) -> int:
    return len(partition.registration.isr) if partition.is_leader else 0


def _stable_offset_lag(partition: Partition) -> int:
    log = partition.log
    return max(0, log.high_watermark - log.last_stable_offset)


_GAUGES: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    (
        "UnderReplicated",
        "1 if this broker leads the partition and replicas are not in sync, otherwise 0.",
        _is_under_replicated,
    ),
    (
        "UnderMinIsr",
        "1 if this broker leads the partition with fewer in-sync replicas than min.insync.replicas.",
        _is_under_min_isr,
    ),
    (
        "AtMinIsr",
        "1 if this broker leads the partition with as many in-sync replicas as min.insync.replicas.",
        _is_at_min_isr,
    ),
    ("ReplicasCount", "Replicas of a partition that this broker leads, otherwise 0.", _replicas),
    (
        "InSyncReplicasCount",
        "In-sync replicas of a partition that this broker leads, otherwise 0.",
        _in_sync,
    ),
    (
        "LastStableOffsetLag",
        "Records from the first open transaction on. Consumers with read_committed wait for them.",
        _stable_offset_lag,
    ),
)


def partitions(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the replicas."""
    found = [((each.topic, str(each.index)), each) for each in list(node.broker.replicas)]
    for name, text, read in _GAUGES:
        rows = [(tags, read(each)) for tags, each in found]
        yield gauge(f"kafka.cluster:type=Partition,name={name},topic=*,partition=*", text, rows)
    undecided = [(tags, _stable_offset_lag(each)) for tags, each in found]
    yield own(
        "odradek_partition_undecided_records",
        "Records from the first open transaction on. Consumers with read_committed wait for them.",
        [each for each in undecided if each[1]],
        "topic",
        "partition",
    )
