"""`odradek topic describe`, and the facts about topics that `list` uses too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from odradek.cli.arguments import topic_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    end_with_errors,
    number,
    print_fields,
    print_json,
    print_table,
)
from odradek.cli.suggestions import suggest_topics
from odradek.client.admin.cluster import describe_log_dirs
from odradek.client.admin.configs import (
    ConfigEntry,
    Resource,
    describe_configs,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.metadata import Partition, Topic
from odradek.client.offsets import EARLIEST, LATEST, list_offsets
from odradek.model import uuids
from odradek.model.config_resource import ResourceType, Source
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import size_text

_OFFSETS_TIMEOUT_MS = 2_000
"""The timeout is short, so that a partition without a leader does not delay the command."""


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
    starts = _known_offsets(cluster, keys, EARLIEST)
    ends = _known_offsets(cluster, keys, LATEST)
    sizes = _sizes(cluster, keys)
    return [TopicFacts(t, _of(t, starts), _of(t, ends), _of(t, sizes)) for t in order]


def _of(topic: Topic, values: Mapping[TopicPartition, int]) -> dict[int, int]:
    found = ((index, values.get(TopicPartition(topic.name, index))) for index in topic.partitions)
    return {index: value for index, value in found if value is not None}


def _known_offsets(
    cluster: Cluster, keys: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(keys, time_ms), timeout_ms=_OFFSETS_TIMEOUT_MS)
    return {
        key: result.offset for key, result in found.items() if not isinstance(result, ClientError)
    }


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


@click.command()
@topic_argument(nargs=-1, required=True)
@click.option("--all-settings", "-a", is_flag=True, help="Also show settings with default values.")
@json_option
@cluster_options
def describe(topics: tuple[str, ...], all_settings: bool, as_json: bool) -> None:
    """Show a topic's partitions, replicas, offsets, size and settings.

    \b
    Examples:
      odradek topic describe flights
      odradek topic describe flights --json
    """
    errors: list[ClientError] = []
    found: list[TopicFacts] = []
    with connected() as cluster:
        for name in dict.fromkeys(topics):
            try:
                (facts,) = gather_facts(cluster, [cluster.topic(name)], with_sizes=True)
                settings = _settings(cluster, name, all_settings)
            except ClientError as error:
                errors.append(error)
            else:
                found.append(
                    TopicFacts(facts.topic, facts.starts, facts.ends, facts.sizes, settings)
                )
        errors = suggest_topics(cluster, errors)
    if as_json:
        print_json([_full_json(each) for each in found])
    else:
        for place, each in enumerate(found):
            if place:
                click.echo()
            _print(each)
    end_with_errors(errors)


def _settings(cluster: Cluster, name: str, all_settings: bool) -> list[ConfigEntry]:
    resource = Resource(ResourceType.TOPIC, name)
    result = describe_configs(cluster, [resource])[resource]
    if isinstance(result, ClientError):
        raise result
    return [each for each in result if all_settings or each.source == Source.TOPIC]


def _print(facts: TopicFacts) -> None:
    topic = facts.topic
    settings = [(f"  {entry.name}", entry.value) for entry in facts.settings]
    print_fields(
        [
            ("Topic", topic.name),
            ("Id", uuids.to_text(topic.id)),
            ("Partitions", f"{len(topic.partitions)}, replicas {topic.replication_factor}"),
            ("Records", "unknown" if facts.records is None else facts.records),
            ("Size", size_text(facts.size_bytes)),
            *([("State", facts.state)] if facts.state else []),
            *([("Settings", "")] if settings else []),
            *settings,
        ]
    )
    click.echo()
    columns = [
        number("Partition"),
        number("Leader"),
        Column("Replicas"),
        Column("In sync"),
        number("Start"),
        number("End"),
        number("Size"),
    ]
    print_table(columns, (_row(facts, p) for p in topic.partitions.values()))


def _row(facts: TopicFacts, partition: Partition) -> list[object]:
    index = partition.index
    return [
        index,
        partition.leader if partition.leader >= 0 else "none",
        ",".join(map(str, partition.replicas)),
        ",".join(map(str, partition.in_sync)),
        facts.starts.get(index),
        facts.ends.get(index),
        size_text(facts.sizes.get(index, -1)),
    ]


def _full_json(facts: TopicFacts) -> dict[str, object]:
    value = facts.as_json()
    value["partitions"] = [
        {
            "partition": p.index,
            "leader": p.leader if p.leader >= 0 else None,
            "leader_epoch": p.leader_epoch,
            "replicas": p.replicas,
            "in_sync": p.in_sync,
            "offline_replicas": p.offline,
            "start_offset": facts.starts.get(p.index),
            "end_offset": facts.ends.get(p.index),
            "size_bytes": facts.sizes.get(p.index),
        }
        for p in facts.topic.partitions.values()
    ]
    value["settings"] = {entry.name: entry.value for entry in facts.settings}
    return value
