"""Brings elections of a coordinator's topic from the metadata to the coordinator."""

from __future__ import annotations

from typing import Protocol

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage


class Coordinator(Protocol):
    """A coordinator as the metadata drives it."""

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The cluster has changed."""
        ...

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition."""
        ...

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker does not lead the partition; None: its replica is gone."""
        ...


class Elections:
    """A metadata publisher; to be told after the replicas have been."""

    def __init__(self, node_id: int, topic: str, coordinator: Coordinator) -> None:
        self._node_id = node_id
        self._topic = topic
        self._coordinator = coordinator

    def start(self, image: MetadataImage) -> None:
        """Begin with what was published before: coordinate what this broker leads."""
        self._coordinator.on_metadata(MetadataDelta(image), image)
        topic = image.topics.by_name.get(self._topic)
        if topic is not None:
            for index, partition in topic.partitions.items():
                if partition.leader == self._node_id:
                    self._coordinator.on_election(index, partition.leader_epoch)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Publisher`."""
        self._coordinator.on_metadata(delta, image)
        for topic_id, name in delta.topics.deleted:
            if name == self._topic:
                for index in delta.image_before.topics.by_id[topic_id].partitions:
                    self._coordinator.on_resignation(index)
        for topic_id, topic_delta in delta.topics.changed.items():
            topic = image.topics.by_id.get(topic_id)
            if topic is None or topic.name != self._topic:
                continue
            for index, partition in topic_delta.partitions.items():
                if partition.leader == self._node_id:
                    self._coordinator.on_election(index, partition.leader_epoch)
                elif self._node_id in partition.replicas:
                    self._coordinator.on_resignation(index, partition.leader_epoch)
                else:
                    self._coordinator.on_resignation(index)
