"""Topic ids and metadata hashes for groups; a changed hash starts a rebalance.

A group's hash is stored with its epoch and is the same as Apache Kafka's, so a group that was
coordinated by an Apache Kafka broker does not rebalance when it is loaded here.
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
        """Topics may have been created while the groups had no coordinator."""
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
        """The ids of the topics that exist, in the order of the names."""
        by_name = self._state.image.topics.by_name
        return {by_name[name].id: None for name in names if name in by_name}.keys()

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """Number of partitions by topic id; all topics must exist."""
        by_id = self._state.image.topics.by_id
        return {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids}

    def group_hash(self, names: Iterable[str]) -> int:
        """The hash of a group with these topics; 0 if none of them exists."""
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
    """XXH3 with 64 bits and seed 0, as a signed number as in Java."""
    value = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value


def topic_hash(topic: TopicImage, cluster: ClusterImage) -> int:
    """The hash of a topic's id, name, and the racks of each partition."""
    parts = [_MAGIC, _LONGS(*_ID_LONGS(topic.id)), _text(topic.name), _INT(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_INT(index))
        brokers = (cluster.brokers.get(each) for each in topic.partitions[index].replicas)
        for rack in sorted(each.rack for each in brokers if each is not None and each.rack):
            parts.append(_INT(len(rack)))
            parts.append(_text(rack))
    return xxh3(b"".join(parts))


def _text(text: str) -> bytes:
    """The text's UTF-16 units, followed by their number."""
    units = text.encode("utf-16-le")
    return units + _INT(len(units) // 2)
