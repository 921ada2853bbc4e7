"""The newest published metadata image, and what handlers read of it."""

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
    """See the module. A `Publisher`; take `image` once where several answers must agree."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Publisher`."""
        self.image = image

    def load(self, image: MetadataImage) -> None:
        """See `Publisher`."""
        self.image = image

    def topic(self, name: str) -> TopicImage | None:
        """A topic by name."""
        return self.image.topics.by_name.get(name)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """A partition by the topic's name."""
        return self.image.topics.partition(topic, index)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Where an alive broker is reached by a listener name; None if it is not."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(listener)
