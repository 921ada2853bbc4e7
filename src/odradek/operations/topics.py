"""Facts about topics: offsets and sizes of partitions, settings, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.admin.cluster import describe_log_dirs
from odradek.client.admin.configs import ConfigEntry, Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.metadata import Topic
from odradek.client.offsets import EARLIEST, LATEST
from odradek.model import uuids
from odradek.model.config_resource import ResourceType, Source
from odradek.model.topic_partition import TopicPartition
from odradek.operations.positions import known_offsets


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic with facts about its partitions. Unknown values are not in the maps."""

    topic: Topic
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)
    settings: Sequence[ConfigEntry] = ()

    @property
    def records(self) -> int | None:
        """The number of offsets between start and end; None if a partition's end is unknown."""
        if len(self.ends) < len(self.topic.partitions):
            return None
        return sum(self.ends.values()) - sum(self.starts.values())

    @property
    def size_bytes(self) -> int:
        """Size on disk of one replica of each partition; -1 if unknown."""
        return sum(self.sizes.values()) if self.sizes else -1

    @property
    def state(self) -> str:
        """A short description of the topic's problem, or an empty text."""
        partitions = self.topic.partitions.values()
        offline = sum(p.leader < 0 for p in partitions)
        behind = sum(p.under_replicated for p in partitions)
        if offline:
            return f"{offline} without a leader"
        return f"{behind} under-replicated" if behind else ""

    def as_json(self) -> dict[str, object]:
        """The facts as JSON."""
        value: dict[str, object] = {
            "name": self.topic.name,
            "id": uuids.to_text(self.topic.id),
            "internal": self.topic.is_internal,
            "partitions": len(self.topic.partitions),
            "replication_factor": self.topic.replication_factor,
            "offline": sum(p.leader < 0 for p in self.topic.partitions.values()),
            "under_replicated": sum(p.under_replicated for p in self.topic.partitions.values()),
        }
        if self.ends:
            value["records"] = self.records
        if self.sizes:
            value["size_bytes"] = self.size_bytes
        return value


def gather_facts(
    cluster: Cluster, topics: Iterable[Topic], *, with_sizes: bool
) -> list[TopicFacts]:
    """Return facts about topics. With `with_sizes`, add offsets and sizes of the partitions."""
    order = list(topics)
    if not with_sizes or not order:
        return [TopicFacts(each) for each in order]
    keys = [TopicPartition(t.name, index) for t in order for index in t.partitions]
    starts = known_offsets(cluster, keys, EARLIEST)
    ends = known_offsets(cluster, keys, LATEST)
    sizes = _sizes(cluster, keys)
    return [TopicFacts(t, _of(t, starts), _of(t, ends), _of(t, sizes)) for t in order]


def _of(topic: Topic, values: Mapping[TopicPartition, int]) -> dict[int, int]:
    found = ((index, values.get(TopicPartition(topic.name, index))) for index in topic.partitions)
    return {index: value for index, value in found if value is not None}


def _sizes(cluster: Cluster, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the sizes of partitions on the leaders' disks, in bytes."""
    topics = cluster.metadata.topics
    leaders = {key: topics[key.topic].partitions[key.partition].leader for key in keys}
    sizes: dict[TopicPartition, int] = {}
    for node_id in {leader for leader in leaders.values() if leader >= 0}:
        led = [key for key in keys if leaders[key] == node_id]
        for directory in describe_log_dirs(cluster, node_id, led):
            sizes.update({key: size for key, size in directory.sizes.items() if key in leaders})
    return sizes


def read_settings(cluster: Cluster, name: str, *, with_defaults: bool) -> list[ConfigEntry]:
    """Return the settings of a topic; without `with_defaults` only those that were set for it.

    Raises:
        ClientError: the broker refuses, or does not respond.
    """
    resource = Resource(ResourceType.TOPIC, name)
    result = describe_configs(cluster, [resource])[resource]
    if isinstance(result, ClientError):
        raise result
    return [each for each in result if with_defaults or each.source == Source.TOPIC]
