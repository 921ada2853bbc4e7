"""The queues of the partitions of one topic, and the partition of its records without a key."""

from __future__ import annotations

from odradek.client.core.backoff import RandomNumber
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.partitioners import StickyPartition
from odradek.client.metadata import Topic
from odradek.model.topic_partition import TopicPartition


class TopicQueues:
    """The queues of a topic by partition. A topic may get more partitions."""

    def __init__(self, topic: Topic, random: RandomNumber, stick_bytes: int) -> None:
        self.name = topic.name
        self.topic = topic
        """The metadata that the queues were made from."""
        self.queues: list[PartitionQueue] = []
        self.sticky = StickyPartition(random, stick_bytes)
        self._led: list[int] = []
        self.update(topic)

    def update(self, topic: Topic) -> None:
        """Use newer metadata."""
        self.topic = topic
        count = max(topic.partitions, default=-1) + 1
        for index in range(len(self.queues), count):
            self.queues.append(PartitionQueue(TopicPartition(topic.name, index)))
        self._led = [i for i, each in topic.partitions.items() if each.leader >= 0]

    def choose(self) -> int:
        """Return the partition of a record that can go to any partition."""
        current = self.sticky.current
        if current >= 0:
            return current
        led = self._led or list(range(len(self.queues)))
        return self.sticky.choose(led, [self.queues[index].length for index in led])
