"""What a Streams group is told of a topology: the same that Kafka Streams tells."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.core.streams_topology import StreamsSubtopology, StreamsTopology, TopicToMake
from odradek.core.streams.model.java_order import hash_order
from odradek.core.streams.topology.definition import SourceDefinition, Subtopology, Topology
from odradek.streams.process.layout import REPARTITION_SETTINGS, changelog_settings


def group_topology(topology: Topology, replication_factor: int = -1) -> StreamsTopology:
    """Return the subtopologies with their topics. -1: internal topics get the cluster's default."""
    parts = topology.subtopologies()
    internal = {topic for each in parts for topic in each.repartition_sources}
    groups = _copartition_groups(topology)
    return StreamsTopology(
        [_subtopology(each, internal, groups, replication_factor) for each in parts]
    )


def _subtopology(
    each: Subtopology, internal: set[str], groups: Iterable[set[str]], replication_factor: int
) -> StreamsSubtopology:
    return StreamsSubtopology(
        id=str(each.number),
        source_topics=[topic for topic in each.source_topics if topic not in internal],
        repartition_sinks=[topic for topic in each.sink_topics if topic in internal],
        repartition_sources=[
            TopicToMake(topic, count or 0, replication_factor, REPARTITION_SETTINGS)
            for topic, count in each.repartition_sources.items()
        ],
        changelogs=[
            TopicToMake(name, 0, replication_factor, changelog_settings(store))
            for name, store in each.changelogs.items()
        ],
        copartition_groups=[group for group in groups if group <= set(each.source_topics)],
    )


def _copartition_groups(topology: Topology) -> list[set[str]]:
    """Return the groups of topics that need the same number of partitions, joined as Java joins them.

    Groups with common topics are joined as they come, so that two groups may stay apart that a later
    one connects. The subtopology reads all of them together anyway.
    """
    by_topic: dict[str, set[str]] = {}
    for sources in topology.copartitions:
        topics: dict[str, None] = {}
        for name in sources:
            node = topology.nodes.get(name)
            if isinstance(node, SourceDefinition):
                topics.update(dict.fromkeys(topology.full_name(each) for each in node.topics))
        ordered = hash_order(topics)
        group = next((by_topic[each] for each in ordered if each in by_topic), set[str]())
        group.update(ordered)
        by_topic.update(dict.fromkeys(ordered, group))
    return [set(each) for each in {frozenset(group) for group in by_topic.values()}]
