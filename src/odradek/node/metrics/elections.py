"""Counts elections of partition leaders, for the metrics of a controller."""

from __future__ import annotations

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration


class Elections:
    """A `Publisher` that counts the elections since the start of the node.

    The controllers of a cluster count the same elections, the active one and the others. If a
    partition had several elections between two images, they are counted as one.
    """

    def __init__(self) -> None:
        self.count = 0
        """Elections of another leader than before."""
        self.unclean = 0
        """Elections of a replica that may lack committed records."""
        self.from_elr = 0
        """Elections of an eligible leader replica outside the ISR (KIP-966)."""

    def load(self, image: MetadataImage) -> None:
        """Do nothing: the first image shows no elections."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count the elections of a change."""
        for topic in delta.topics.changed.values():
            before = {} if topic.image_before is None else topic.image_before.partitions
            for index, partition in topic.partitions.items():
                known = before.get(index)
                if known is not None:
                    self._compare(known, partition)

    def _compare(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        leader = after.leader
        if leader in (before.leader, NO_LEADER):
            return
        self.count += 1
        if leader in before.elr:
            self.from_elr += 1
        elif leader not in before.isr:
            self.unclean += 1
