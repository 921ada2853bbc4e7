"""An index of the partitions by broker (Kafka's BrokersToIsrs and BrokersToElrs).

If a broker fails, the controller must find the partitions that the broker leads or is in sync with.
The index finds them without a scan of all partitions. It is built once from an image, when the
controller becomes active. From then on each change of the metadata updates it (`update`). The cost
of an update depends on the number of changed partitions, not on the number of partitions.

A partition whose only replica is on one broker is kept apart (`alone_on`), because no other broker
can lead it: fencing its broker does not change it (see `partition_updates.broker_fenced`).
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import TopicsImage
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration, Uuid

PartitionId = tuple[Uuid, int]
"""A topic id and the index of a partition."""

_Partitions = dict[Uuid, dict[int, None]]
"""The indexes of partitions by topic id, in the order in which they were added."""


class PartitionIndex:
    """The partitions by broker. It equals the topics of the image after each `update`."""

    def __init__(self, topics: TopicsImage) -> None:
        """Build the index of all partitions of an image."""
        self._in_isr: dict[int, _Partitions] = {}
        self._in_elr: dict[int, _Partitions] = {}
        self._led: dict[int, _Partitions] = {}
        """By leader, without the partitions of `_alone`. NO_LEADER has the leaderless ones."""
        self._alone: dict[int, _Partitions] = {}
        self._unbalanced: _Partitions = {}
        for topic in topics.by_id.values():
            for index, partition in topic.partitions.items():
                self._add(topic.id, index, partition)

    # -- reading ----------------------------------------------------------------------------------

    def in_isr(self, broker_id: int) -> Iterator[PartitionId]:
        """Yield the partitions whose ISR contains the broker, and which have other replicas."""
        return _items(self._in_isr.get(broker_id))

    def in_elr(self, broker_id: int) -> Iterator[PartitionId]:
        """Yield the partitions whose eligible leader replicas contain the broker (KIP-966)."""
        return _items(self._in_elr.get(broker_id))

    def led_by(self, broker_id: int) -> Iterator[PartitionId]:
        """Yield the partitions that the broker leads, and which have other replicas."""
        return _items(self._led.get(broker_id))

    def leads(self, broker_id: int) -> bool:
        """Return whether the broker leads a partition that has other replicas."""
        return broker_id in self._led

    def alone_on(self, broker_id: int) -> Iterator[PartitionId]:
        """Yield the partitions that the broker leads and that have no other replica."""
        return _items(self._alone.get(broker_id))

    def leaderless(self) -> Iterator[PartitionId]:
        """Yield the partitions without a leader."""
        return _items(self._led.get(NO_LEADER))

    @property
    def has_leaderless(self) -> bool:
        """Whether a partition has no leader."""
        return NO_LEADER in self._led

    def unbalanced(self) -> Iterator[PartitionId]:
        """Yield the partitions whose leader is not their first replica."""
        return _items(self._unbalanced)

    @property
    def has_unbalanced(self) -> bool:
        """Whether the first replica of a partition is not its leader."""
        return bool(self._unbalanced)

    # -- changes ----------------------------------------------------------------------------------

    def update(self, delta: MetadataDelta) -> None:
        """Apply a change of the metadata. All changes of an image are applied in order."""
        before = delta.topics.image_before
        for topic_id, _ in delta.topics.deleted:
            for index, partition in before.by_id[topic_id].partitions.items():
                self._remove(topic_id, index, partition)
        for topic_id, topic in delta.topics.changed.items():
            old = {} if topic.image_before is None else topic.image_before.partitions
            for index, partition in topic.partitions.items():
                was = old.get(index)
                if was is not None:
                    self._remove(topic_id, index, was)
                self._add(topic_id, index, partition)

    def _add(self, topic_id: Uuid, index: int, partition: PartitionRegistration) -> None:
        leader = partition.leader
        if leader != partition.preferred_leader:
            self._unbalanced.setdefault(topic_id, {})[index] = None
        if leader == NO_LEADER:
            _add(self._led, NO_LEADER, topic_id, index)
        elif len(partition.replicas) == 1:
            _add(self._alone, leader, topic_id, index)
        else:
            _add(self._led, leader, topic_id, index)
        if len(partition.replicas) > 1:
            for replica in partition.isr:
                _add(self._in_isr, replica, topic_id, index)
        for replica in partition.elr:
            _add(self._in_elr, replica, topic_id, index)

    def _remove(self, topic_id: Uuid, index: int, partition: PartitionRegistration) -> None:
        leader = partition.leader
        if leader != partition.preferred_leader:
            _drop(self._unbalanced, topic_id, index)
        if leader == NO_LEADER:
            _remove(self._led, NO_LEADER, topic_id, index)
        elif len(partition.replicas) == 1:
            _remove(self._alone, leader, topic_id, index)
        else:
            _remove(self._led, leader, topic_id, index)
        if len(partition.replicas) > 1:
            for replica in partition.isr:
                _remove(self._in_isr, replica, topic_id, index)
        for replica in partition.elr:
            _remove(self._in_elr, replica, topic_id, index)

    def contents(self) -> dict[str, dict[int, set[PartitionId]]]:
        """Return everything in the index without its order, to compare two indexes."""
        maps = {
            "in_isr": self._in_isr,
            "in_elr": self._in_elr,
            "led": self._led,
            "alone": self._alone,
            "unbalanced": {NO_LEADER: self._unbalanced} if self._unbalanced else {},
        }
        return {
            name: {broker: set(_items(partitions)) for broker, partitions in brokers.items()}
            for name, brokers in maps.items()
        }


def _items(partitions: _Partitions | None) -> Iterator[PartitionId]:
    if partitions is not None:
        for topic_id, indexes in partitions.items():
            for index in indexes:
                yield topic_id, index


def _add(brokers: dict[int, _Partitions], broker_id: int, topic_id: Uuid, index: int) -> None:
    brokers.setdefault(broker_id, {}).setdefault(topic_id, {})[index] = None


def _remove(brokers: dict[int, _Partitions], broker_id: int, topic_id: Uuid, index: int) -> None:
    partitions = brokers[broker_id]
    _drop(partitions, topic_id, index)
    if not partitions:
        del brokers[broker_id]


def _drop(partitions: _Partitions, topic_id: Uuid, index: int) -> None:
    indexes = partitions[topic_id]
    del indexes[index]
    if not indexes:
        del partitions[topic_id]
