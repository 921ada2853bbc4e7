"""The metrics of groups, and of their committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, Row, gauge, one, own, own_count

_LAG_EXPORTER = "kafka_consumergroup"


def groups(node: BrokerSources) -> Iterator[Metric]:
    """Yield the numbers of groups and of rebalances."""
    states = node.broker.coordinators.groups.count_by_state()
    yield gauge(
        "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
        "Groups that this broker coordinates.",
        one(sum(states.values())),
    )
    yield own(
        "odradek_groups",
        "Groups by type and state.",
        [((kind.value, state), count) for (kind, state), count in states.items()],
        "type",
        "state",
    )
    yield own_count(
        "odradek_group_rebalances",
        "Rebalances of groups.",
        [
            ((k.value,), count)
            for k, count in node.broker.coordinators.groups.count_rebalances().items()
        ],
        "type",
    )


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
