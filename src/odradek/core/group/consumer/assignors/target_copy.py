"""Target assignments that an assignor changes. Their order is the same as in Apache Kafka.

The topics and partitions of a target assignment are in the order of Java's hash tables (see
`java_order`). The record of the target assignment has the same order. The next computation uses
this order to choose the partitions to revoke. So every change must have the same effect on the
order as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.modern.assignment import Assignment, ordered_set
from odradek.model.java_order import (
    DEFAULT_CAPACITY,
    JavaHashTable,
    copied_capacity,
    grown_capacity,
    hash_order,
    integer_hash,
    uuid_hash,
)


def topic_order(target: Assignment) -> list[bytes]:
    """Return the topics of a target in the order in which Apache Kafka iterates over them."""
    return hash_order(target, uuid_hash, grown_capacity(len(target)))


def partition_order(partitions: Iterable[int]) -> list[int]:
    """Return the partitions of one topic in the order in which Apache Kafka iterates over them."""
    ordered = list(partitions)
    return hash_order(ordered, integer_hash, copied_capacity(len(ordered)))


class TargetCopy:
    """A modifiable copy of a target (Kafka's `AssignorHelpers.deepCopyAssignment`)."""

    __slots__ = ("_partitions", "_topic_ids")

    def __init__(self, target: Assignment) -> None:
        self._topic_ids: JavaHashTable[bytes] = JavaHashTable(uuid_hash, len(target))
        self._partitions: dict[bytes, JavaHashTable[int]] = {}
        for topic_id in topic_order(target):
            self._topic_ids.put(topic_id)
            ordered = partition_order(target[topic_id])
            copied = JavaHashTable(integer_hash, copied_capacity(len(ordered)))
            for partition in ordered:
                copied.put(partition)
            self._partitions[topic_id] = copied

    def add(
        self, topic_id: bytes, partition: int, initial_capacity: int = DEFAULT_CAPACITY
    ) -> None:
        """Add a partition.

        If the topic is new, its set of partitions gets the initial capacity `initial_capacity`.
        """
        self._topic_ids.compute(topic_id)
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = JavaHashTable(integer_hash, initial_capacity)
            self._partitions[topic_id] = partitions
        partitions.put(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Remove a partition. If the topic has no other partition, remove the topic too."""
        partitions = self._partitions[topic_id]
        partitions.remove(partition)
        if not partitions:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        """Remove all partitions of a topic."""
        self._topic_ids.remove(topic_id)
        del self._partitions[topic_id]

    def assignment(self) -> Assignment:
        """Return the changed target."""
        return {topic_id: ordered_set(self._partitions[topic_id]) for topic_id in self._topic_ids}
