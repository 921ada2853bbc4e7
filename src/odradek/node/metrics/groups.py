"""The metrics of groups, and of their committed offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.broker.coordinator.runtime import CoordinatorRuntime
from odradek.broker.coordinator.shard import ShardState
from odradek.core.group.classic.group import ClassicState
from odradek.core.group.group import GroupType
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import (
    Metric,
    Row,
    attribute,
    gauge,
    one,
    own,
    own_count,
    rate,
)

_LAG_EXPORTER = "kafka_consumergroup"
_MANAGER = "kafka.coordinator.group:type=GroupMetadataManager,name="
_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
_PROTOCOLS = (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)
_REBALANCES = {
    GroupType.CLASSIC: "group-completed-rebalance",
    GroupType.CONSUMER: "consumer-group-rebalance",
    GroupType.SHARE: "share-group-rebalance",
    GroupType.STREAMS: "streams-group-rebalance",
}


def coordinators(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the partitions of the coordinators' topics."""
    parts = node.broker.coordinators
    now_ms = node.broker.clock.monotonic_ms()
    yield from _partitions("group", parts.groups.runtime, now_ms)
    yield from _partitions("transaction", parts.transactions.runtime, now_ms)
    yield from _partitions("share", parts.shares.runtime, now_ms)


def _partitions(name: str, runtime: CoordinatorRuntime[Any], now_ms: int) -> Iterator[Metric]:
    pattern = f"kafka.server:type={name}-coordinator-metrics"
    counts = runtime.count_by_state()
    yield attribute(
        f"{pattern},state=*",
        "num-partitions",
        "Partitions of the coordinator's topic that this broker leads, by state.",
        [
            ((state.value,), counts[state])
            for state in (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED)
        ],
    )
    mean, largest = runtime.load_times.read(now_ms)
    for ending, value in (("avg", mean), ("max", largest)):
        yield attribute(
            pattern,
            f"partition-load-time-{ending}",
            "Milliseconds that it took to load partitions in the last minute.",
            one(value),
        )


def groups(node: BrokerSources) -> Iterator[Metric]:
    """Yield the numbers of groups and of rebalances."""
    coordinator = node.broker.coordinators.groups
    states = coordinator.count_by_state()
    of_type = dict.fromkeys(_PROTOCOLS, 0)
    for (kind, _), count in states.items():
        of_type[kind] += count
    yield gauge(
        f"{_MANAGER}NumGroups",
        "Classic groups that this broker coordinates.",
        one(of_type[GroupType.CLASSIC]),
    )
    for each in ClassicState:
        yield gauge(
            f"{_MANAGER}NumGroups{each.value}",
            f"Classic groups in the state {each.value}.",
            one(states.get((GroupType.CLASSIC, each.value), 0)),
        )
    yield attribute(
        f"{_COORDINATOR},protocol=*",
        "group-count",
        "Groups that this broker coordinates, by type.",
        [((kind.value,), count) for kind, count in of_type.items()],
    )
    yield attribute(
        f"{_COORDINATOR},state=*",
        "classic-group-count",
        "Classic groups, by state.",
        [((each.value,), states.get((GroupType.CLASSIC, each.value), 0)) for each in ClassicState],
    )
    for kind in (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS):
        yield attribute(
            f"{_COORDINATOR},state=*",
            f"{kind.value}-group-count",
            "Groups of one type, by state.",
            [((state,), count) for (of, state), count in states.items() if of is kind],
        )
    yield own(
        "odradek_groups",
        "Groups by type and state.",
        [((kind.value, state), count) for (kind, state), count in states.items()],
        "type",
        "state",
    )
    yield from _rebalances(coordinator.count_rebalances())


def _rebalances(counts: dict[GroupType, int]) -> Iterator[Metric]:
    for kind, name in _REBALANCES.items():
        text = f"Rebalances of {kind.value} groups."
        yield rate(_COORDINATOR, f"{name}-rate", text, one(counts[kind]))
        yield attribute(_COORDINATOR, f"{name}-count", text, one(counts[kind]))
    yield own_count(
        "odradek_group_rebalances",
        "Rebalances of groups.",
        [((kind.value,), count) for kind, count in counts.items()],
        "type",
    )


def description_counts(node: BrokerSources) -> Iterator[Metric]:
    """Yield how often descriptions of the topologies of Streams groups were stored and read."""
    counts = node.broker.coordinators.groups.count_descriptions()
    for name, text in (
        ("set-success", "Descriptions that members have sent and that were stored."),
        ("set-error", "Descriptions that were too large to be stored."),
        ("get-success", "Descriptions that were read."),
    ):
        prefix = f"streams-group-topology-description-{name}"
        yield rate(_COORDINATOR, f"{prefix}-rate", text, one(counts[name]))
        yield attribute(_COORDINATOR, f"{prefix}-count", text, one(counts[name]))


def offset_counts(node: BrokerSources) -> Iterator[Metric]:
    """Yield the numbers of offsets that are stored, committed, expired and deleted."""
    stored, counts = node.broker.coordinators.groups.count_offsets()
    yield gauge(f"{_MANAGER}NumOffsets", "Committed offsets that are stored.", one(stored))
    yield attribute(_COORDINATOR, "offset-count", "Committed offsets that are stored.", one(stored))
    for name, text, count in (
        ("offset-commit", "Committed offsets.", counts.committed),
        ("offset-expiration", "Offsets that have expired.", counts.expired),
        ("offset-deletion", "Offsets that a client has deleted.", counts.deleted),
    ):
        yield rate(_COORDINATOR, f"{name}-rate", text, one(count))
        yield attribute(_COORDINATOR, f"{name}-count", text, one(count))


def offsets(node: BrokerSources) -> Iterator[Metric]:
    """Yield committed offsets and lags, with the names of the usual exporter of lags."""
    lags: list[Row] = []
    committed: list[Row] = []
    by_name = node.broker.replicas.by_name
    for group, topic, index, offset in node.broker.coordinators.groups.committed_offsets():
        tags = (group, topic, str(index))
        committed.append((tags, offset))
        partition = by_name.get(topic, {}).get(index)
        if partition is not None:
            lags.append((tags, max(0, partition.log.high_watermark - offset)))
    for name, text, rows in (
        ("current_offset", "Committed offsets.", committed),
        ("lag", "High watermark of a partition minus the committed offset of a group.", lags),
    ):
        keys = ("consumergroup", "topic", "partition")
        yield own(f"{_LAG_EXPORTER}_{name}", text, rows, *keys)
