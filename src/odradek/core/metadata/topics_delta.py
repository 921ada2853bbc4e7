"""Changes to topics and their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.core.metadata.errors import ReplayError
from odradek.core.metadata.image import PartitionRegistration, TopicImage, TopicsImage, Uuid
from odradek.model.uuids import to_text

if TYPE_CHECKING:
    from odradek.wire.generated.clear_elr_record import ClearElrRecord
    from odradek.wire.generated.partition_change_record import PartitionChangeRecord
    from odradek.wire.generated.partition_record import PartitionRecord
    from odradek.wire.generated.remove_topic_record import RemoveTopicRecord
    from odradek.wire.generated.topic_record import TopicRecord


class TopicDelta:
    """Changes to one topic that still exists.

    `image_before` is None if the topic was created within the delta. `partitions` has the new
    state of the partitions that were added or changed.
    """

    __slots__ = ("id", "image_before", "name", "partitions")

    def __init__(self, name: str, topic_id: Uuid, image_before: TopicImage | None) -> None:
        self.name = name
        self.id = topic_id
        self.image_before = image_before
        self.partitions: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration | None:
        """Return the current state of a partition; None if it does not exist."""
        found = self.partitions.get(index)
        if found is None and self.image_before is not None:
            found = self.image_before.partitions.get(index)
        return found

    def clear_elr(self) -> None:
        """Remove the eligible leader replicas of all partitions."""
        before = self.image_before.partitions if self.image_before is not None else {}
        for index, partition in {**before, **self.partitions}.items():
            cleared = partition.without_elr()
            if cleared is not partition:
                self.partitions[index] = cleared

    def apply(self) -> TopicImage:
        """Return the changed topic."""
        if self.image_before is None:
            return TopicImage(self.name, self.id, dict(self.partitions))
        return TopicImage(self.name, self.id, {**self.image_before.partitions, **self.partitions})


class TopicsDelta:
    """Changes to all topics.

    `changed` has the changed topics that still exist, by topic id. The keys of `deleted` are (topic
    id, name) of the deleted topics. A topic that was created and deleted within the delta is in
    neither of them. If a topic was deleted and created again, both contain its name, with different
    topic ids.
    """

    __slots__ = ("_created", "changed", "deleted", "image_before")

    def __init__(self, image_before: TopicsImage) -> None:
        self.image_before = image_before
        self.changed: dict[Uuid, TopicDelta] = {}
        self.deleted: dict[tuple[Uuid, str], None] = {}
        self._created: dict[str, Uuid] = {}

    def _topic(self, topic_id: Uuid) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            image = self.image_before.by_id.get(topic_id)
            if image is None or (topic_id, image.name) in self.deleted:
                raise ReplayError(f"no topic has the id {to_text(topic_id)}")
            delta = self.changed[topic_id] = TopicDelta(image.name, topic_id, image)
        return delta

    def replay_topic(self, record: TopicRecord) -> None:
        """Create a topic without partitions."""
        self.changed[record.topic_id] = TopicDelta(record.name, record.topic_id, None)
        self._created[record.name] = record.topic_id

    def replay_partition(self, record: PartitionRecord) -> None:
        """Create a partition, or replace it completely."""
        topic = self.changed.get(record.topic_id) or self._topic(record.topic_id)
        topic.partitions[record.partition_id] = PartitionRegistration.from_record(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        """Change a partition.

        Raises:
            ReplayError: the topic or the partition does not exist.
        """
        topic = self._topic(record.topic_id)
        partition = topic.partition(record.partition_id)
        if partition is None:
            raise ReplayError(f"topic {topic.name} has no partition {record.partition_id}")
        topic.partitions[record.partition_id] = partition.changed_by(record)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Remove the eligible leader replicas of a topic, or of all topics if the name is empty.

        Raises:
            ReplayError: the topic does not exist.
        """
        if not record.topic_name:
            for existing_id in (*self.image_before.by_id, *self._created.values()):
                if not self._is_deleted(existing_id):
                    self._topic(existing_id).clear_elr()
            return
        topic_id: Uuid | None = self._created.get(record.topic_name)
        if topic_id is None:
            image = self.image_before.by_name.get(record.topic_name)
            if image is None:
                raise ReplayError(f"no topic is named {record.topic_name}")
            topic_id = image.id
        if not self._is_deleted(topic_id):
            self._topic(topic_id).clear_elr()

    def _is_deleted(self, topic_id: Uuid) -> bool:
        image = self.image_before.by_id.get(topic_id)
        return image is not None and (topic_id, image.name) in self.deleted

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Delete a topic and return its name.

        Raises:
            ReplayError: the topic does not exist.
        """
        topic = self._topic(record.topic_id)
        del self.changed[record.topic_id]
        if self._created.get(topic.name) == record.topic_id:
            del self._created[topic.name]
        if record.topic_id in self.image_before.by_id:
            self.deleted[record.topic_id, topic.name] = None
        return topic.name

    def finish_snapshot(self) -> None:
        """Delete every topic that is not in the snapshot."""
        for topic_id, image in self.image_before.by_id.items():
            if topic_id not in self.changed:
                self.deleted[topic_id, image.name] = None

    def apply(self) -> TopicsImage:
        """Return all topics after the changes; `image_before` if there are no changes."""
        if not self.changed and not self.deleted:
            return self.image_before
        by_name = dict(self.image_before.by_name)
        by_id = dict(self.image_before.by_id)
        for topic_id, name in self.deleted:
            del by_id[topic_id]
            del by_name[name]
        for topic_id, delta in self.changed.items():
            image = delta.apply()
            by_id[topic_id] = image
            by_name[image.name] = image
        return TopicsImage(by_name, by_id)
