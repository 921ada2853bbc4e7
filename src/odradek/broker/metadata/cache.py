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
    """See the module. A `Publisher`; read `image` once if several lookups must be consistent."""

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
        """Return the endpoint of an alive broker by a listener name; None if there is none."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(listener)
