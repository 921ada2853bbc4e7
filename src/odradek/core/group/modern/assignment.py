"""Assignments, and the member epochs with a special meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

JOIN_EPOCH = 0
"""In a heartbeat: the member joins. A fenced member uses this epoch to join again."""
LEAVE_EPOCH = -1
"""In a heartbeat: the member leaves."""

Assignment = Mapping[bytes, AbstractSet[int]]
"""Partitions by topic id. In a consumer group, every topic has at least one partition.

In a target assignment, the topics and partitions are in the order of its record, because the
results of Apache Kafka's assignors depend on this order (see `java_order`).
"""

NO_ASSIGNMENT: Assignment = {}


def ordered_set(partitions: Iterable[int]) -> AbstractSet[int]:
    """Return a set that keeps the insertion order."""
    return dict.fromkeys(partitions).keys()


def with_epochs(
    partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int
) -> dict[int, int]:
    """Return the epoch in which each partition of a record was assigned to the member.

    Records from before Kafka 4.2 have no such epochs. Then the member epoch is used.
    """
    if epochs is None or len(epochs) != len(partitions):
        return dict.fromkeys(partitions, member_epoch)
    return dict(zip(partitions, epochs, strict=True))
