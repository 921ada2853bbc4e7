"""The newest published metadata image, for handlers."""

from __future__ import annotations

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import (
    EMPTY_IMAGE,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)


class MetadataCache:
    """A `Publisher` that keeps the image. For consistent lookups, read `image` only once."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Keep the new image."""
        self.image = image

    def load(self, image: MetadataImage) -> None:
        """Keep the first image."""
        self.image = image

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic with this name; None if it does not exist."""
        return self.image.topics.by_name.get(name)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return the partition with this topic name and index; None if it does not exist."""
        return self.image.topics.partition(topic, index)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Return a broker's endpoint for a listener.

        Return None if the broker is not registered, is fenced, or lacks the listener.
        """
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(listener)
