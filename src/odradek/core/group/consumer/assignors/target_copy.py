"""Targets that an assignor changes, with the order that Apache Kafka's would have.

The order in which a target names topics and partitions is that of Java's hash tables (see
`java_order`). It goes into the target's record, and decides in the next assignment which
partitions a member gives up. So each change is made as Apache Kafka makes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.member import Assignment, ordered_set
from odradek.core.group.java_order import (
    DEFAULT_CAPACITY,
    JavaHashTable,
    copied_capacity,
    grown_capacity,
    hash_order,
    integer_hash,
    uuid_hash,
)


def topic_order(target: Assignment) -> list[bytes]:
    """The topics of a target in the order in which Apache Kafka goes through them."""
    return hash_order(target, uuid_hash, grown_capacity(len(target)))


def partition_order(partitions: Iterable[int]) -> list[int]:
    """The same for the partitions of one topic."""
    ordered = list(partitions)
    return hash_order(ordered, integer_hash, copied_capacity(len(ordered)))


class TargetCopy:
    """A copy of a target (Kafka's `AssignorHelpers.deepCopyAssignment`), to be changed."""

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
        """`initial_capacity`: of the set of a topic's partitions, if the topic is new."""
        self._topic_ids.compute(topic_id)
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = JavaHashTable(integer_hash, initial_capacity)
            self._partitions[topic_id] = partitions
        partitions.put(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Remove a partition, and its topic with the last one."""
        partitions = self._partitions[topic_id]
        partitions.remove(partition)
        if not partitions:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        """Remove all partitions of a topic."""
        self._topic_ids.remove(topic_id)
        del self._partitions[topic_id]

    def assignment(self) -> Assignment:
        """The changed target."""
        return {topic_id: ordered_set(self._partitions[topic_id]) for topic_id in self._topic_ids}
