"""What a Streams group knows of an application (KIP-1071): its subtopologies and their topics.

The coordinator makes a task of each subtopology for each partition, and creates the internal topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.wire.generated import streams_group_heartbeat_request as wire


class TaskId(NamedTuple):
    """A subtopology for one partition."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class Tasks(NamedTuple):
    """The tasks of a member."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()


NO_TASKS = Tasks()


class TopicToMake(NamedTuple):
    """An internal topic that the coordinator creates if it is missing."""

    name: str
    partitions: int = 0
    """0: as the topology needs."""
    replication_factor: int = -1
    """-1: the broker's default."""
    settings: Mapping[str, str] = {}


class StreamsSubtopology(NamedTuple):
    """A part of the topology that is executed for each partition."""

    id: str
    source_topics: Sequence[str] = ()
    """Without repartition topics."""
    repartition_sinks: Sequence[str] = ()
    repartition_sources: Sequence[TopicToMake] = ()
    changelogs: Sequence[TopicToMake] = ()
    copartition_groups: Sequence[Iterable[str]] = ()
    """Names of topics that need the same number of partitions."""

    def topics(self) -> list[str]:
        """Return all topics that its tasks read."""
        return [*self.source_topics, *(each.name for each in self.repartition_sources)]


class StreamsTopology(NamedTuple):
    """All subtopologies. The epoch is 0 in all clients of today."""

    subtopologies: Sequence[StreamsSubtopology]
    epoch: int = 0

    def message(self) -> wire.Topology:
        """Return it as it is sent: all names are sorted."""
        return wire.Topology(
            epoch=self.epoch,
            subtopologies=[
                _subtopology(each) for each in sorted(self.subtopologies, key=lambda one: one.id)
            ],
        )


def _subtopology(each: StreamsSubtopology) -> wire.Subtopology:
    sources = sorted(each.source_topics)
    repartitions = sorted(each.repartition_sources)
    places = {topic: place for place, topic in enumerate(sources)}
    repartition_places = {topic.name: place for place, topic in enumerate(repartitions)}
    return wire.Subtopology(
        subtopology_id=each.id,
        source_topics=sources,
        state_changelog_topics=[_topic(topic) for topic in sorted(each.changelogs)],
        repartition_sink_topics=sorted(each.repartition_sinks),
        repartition_source_topics=[_topic(topic) for topic in repartitions],
        copartition_groups=[
            wire.CopartitionGroup(
                source_topics=sorted(places[topic] for topic in group if topic in places),
                repartition_source_topics=sorted(
                    repartition_places[topic] for topic in group if topic in repartition_places
                ),
            )
            for group in map(set, each.copartition_groups)
        ],
    )


def _topic(topic: TopicToMake) -> wire.TopicInfo:
    return wire.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[
            wire.KeyValue(key=name, value=value) for name, value in sorted(topic.settings.items())
        ],
    )
