"""Which partitions have moved between members, so that others of the topic do not move the other way."""

from __future__ import annotations

from odradek.model.java_hash import java_hash
from odradek.model.java_order import JavaHashTable
from odradek.model.topic_partition import TopicPartition

_Way = tuple[str, str]
"""The member from which, and the member to which a partition has moved."""


def _hash(partition: TopicPartition) -> int:
    """Return Java's `TopicPartition.hashCode`."""
    return 31 * (31 + partition.partition) + java_hash(partition.topic)


class Moves:
    """The moves of one assignment."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, _Way] = {}
        self._by_topic: dict[str, dict[_Way, JavaHashTable[TopicPartition]]] = {}

    def instead_of(self, partition: TopicPartition, owner: str, member_id: str) -> TopicPartition:
        """Return the partition to move from `owner` to `member_id`.

        It is another one of the topic if that has moved the other way before.
        """
        if partition in self._ways:
            owner = self._ways[partition][0]
        back = self._by_topic.get(partition.topic, {}).get((member_id, owner))
        return partition if back is None else next(iter(back))

    def add(self, partition: TopicPartition, owner: str, member_id: str) -> None:
        """Note that a partition moves from `owner` to `member_id`."""
        earlier = self._ways.pop(partition, None)
        if earlier is not None:
            ways = self._by_topic[partition.topic]
            ways[earlier].remove(partition)
            if not ways[earlier]:
                del ways[earlier]
            owner = earlier[0]
            if owner == member_id:
                return
        way = owner, member_id
        self._ways[partition] = way
        ways = self._by_topic.setdefault(partition.topic, {})
        if way not in ways:
            ways[way] = JavaHashTable(_hash)
        ways[way].put(partition)
