"""Topic ids and metadata hashes of groups.

A group has a hash of the metadata of all its topics. When this hash changes, a rebalance begins.
The hash is stored with the group epoch and is the same as in Apache Kafka. So a group does not
rebalance when an Odradek broker becomes its coordinator after an Apache Kafka broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from struct import Struct

from xxhash import xxh3_64_intdigest

from odradek.core.group.state import GroupState
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import ClusterImage, MetadataImage, TopicImage

_MAGIC = b"\x00"
"""The version of the hash format."""
_INT = Struct("<i").pack
_LONG = Struct("<q").pack
_LONGS = Struct("<QQ").pack
_ID_LONGS = Struct(">QQ").unpack


class Topics:
    """Reads topics from the newest metadata image."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._hashes: dict[str, tuple[TopicImage, int]] = {}
        self.newest_version = -1
        """The version of the last image with new topics."""

    @property
    def version(self) -> int:
        """The version of the newest image."""
        return self._state.image.offset

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all topics."""
        return tuple(self._state.image.topics.by_name)

    def on_loaded(self) -> None:
        """Mark patterns as outdated, because the last coordinator may have missed new topics."""
        self.newest_version = self.version

    def forget(self) -> None:
        """Drop all cached hashes."""
        self._hashes.clear()

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> frozenset[str]:
        """Process a new metadata image; return the names of the changed topics."""
        changed = {topic.name for topic in delta.topics.changed.values()}
        changed.update(name for _, name in delta.topics.deleted)
        for name in changed:
            self._hashes.pop(name, None)
        if any(topic.image_before is None for topic in delta.topics.changed.values()):
            self.newest_version = image.offset
        return frozenset(changed)

    def ids_of(self, names: Iterable[str]) -> AbstractSet[bytes]:
        """Return the ids of the topics that exist, in the order of the names."""
        by_name = self._state.image.topics.by_name
        return {by_name[name].id: None for name in names if name in by_name}.keys()

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """Return the number of partitions of each topic. All topics must exist."""
        by_id = self._state.image.topics.by_id
        return {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids}

    def group_hash(self, names: Iterable[str]) -> int:
        """Return the hash of a group with these topics; 0 if none of the topics exists."""
        by_name = self._state.image.topics.by_name
        known = sorted(name for name in names if name in by_name)
        if not known:
            return 0
        return xxh3(b"".join(_LONG(self._topic_hash(by_name[name])) for name in known))

    def _topic_hash(self, topic: TopicImage) -> int:
        remembered = self._hashes.get(topic.name)
        if remembered is not None and remembered[0] is topic:
            return remembered[1]
        value = topic_hash(topic, self._state.image.cluster)
        self._hashes[topic.name] = (topic, value)
        return value


def xxh3(data: bytes) -> int:
    """Return the 64-bit XXH3 hash with seed 0, as a signed number as in Java."""
    value = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value


def topic_hash(topic: TopicImage, cluster: ClusterImage) -> int:
    """Return the hash of a topic's id and name, and of the racks of each partition."""
    parts = [_MAGIC, _LONGS(*_ID_LONGS(topic.id)), _text(topic.name), _INT(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_INT(index))
        brokers = (cluster.brokers.get(each) for each in topic.partitions[index].replicas)
        for rack in sorted(each.rack for each in brokers if each is not None and each.rack):
            parts.append(_INT(len(rack)))
            parts.append(_text(rack))
    return xxh3(b"".join(parts))


def _text(text: str) -> bytes:
    """Return the UTF-16 units of the text, followed by their number."""
    units = text.encode("utf-16-le")
    return units + _INT(len(units) // 2)
