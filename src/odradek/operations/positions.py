"""Offsets of partitions: of a `Position`, and those that are known without waiting."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    list_offsets,
    offsets_at,
)
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import Position

KNOWN_TIMEOUT_MS = 2_000
"""How long `known_offsets` waits, so that a partition without a leader does not delay a report."""


def known_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset at a time in each partition, without those whose leader does not respond."""
    wanted = dict.fromkeys(partitions, time_ms)
    found = list_offsets(cluster, wanted, timeout_ms=KNOWN_TIMEOUT_MS)
    return {key: each.offset for key, each in found.items() if not isinstance(each, ClientError)}


def resolve_position(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    position: Position,
    *,
    isolation: int = READ_UNCOMMITTED,
    clamped: bool = False,
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition.

    A time after the last record means the end. With `clamped`, an offset that a partition does not
    hold is replaced by the nearest offset of the partition.

    Raises:
        ClientError: the offsets cannot be fetched.
    """
    order = list(partitions)

    def at(time_ms: int) -> dict[TopicPartition, int]:
        return offsets_at(cluster, order, time_ms, isolation=isolation)

    times_ms = {"earliest": EARLIEST, "latest": LATEST, "time": position.value}
    if position.kind in times_ms:
        return at(times_ms[position.kind])
    if position.kind == "max-timestamp":
        return _at_max_timestamp(cluster, order)
    if position.kind == "before-end":
        offsets = {key: end - position.value for key, end in at(LATEST).items()}
        clamped = True
    else:
        offsets = dict.fromkeys(order, position.value)
    if not clamped:
        return offsets
    starts, ends = at(EARLIEST), at(LATEST)
    return {key: min(max(offsets[key], starts[key]), ends[key]) for key in order}


def _at_max_timestamp(
    cluster: Cluster, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offset of the record with the largest timestamp; if there is none, the end."""
    found = list_offsets(cluster, dict.fromkeys(partitions, MAX_TIMESTAMP))
    offsets = {}
    for key, result in found.items():
        if isinstance(result, ClientError):
            raise result
        offsets[key] = result.offset
    empty = [key for key, offset in offsets.items() if offset < 0]
    return offsets | (offsets_at(cluster, empty, LATEST) if empty else {})
