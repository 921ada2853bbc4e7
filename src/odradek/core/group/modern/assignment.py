"""Assignments, and the member epochs with a special meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
