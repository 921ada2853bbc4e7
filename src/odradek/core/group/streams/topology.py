"""The topology of a Streams application, as its members have sent it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_order import java_hash_order
from odradek.wire.generated import streams_group_heartbeat_request as request
from odradek.wire.generated.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

OUT_OF_RANGE: Final = "A copartition group has an index of a topic that does not exist."


class Topology(NamedTuple):
    """The subtopologies by id, in the order of Apache Kafka's `HashMap`."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> Topology:
        """Return the topology in a record.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: two subtopologies have the same id.
        """
        by_id = {each.subtopology_id: each for each in value.subtopologies}
        if len(by_id) < len(value.subtopologies):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "Two subtopologies have the same id.")
        return cls(value.epoch, {each: by_id[each] for each in java_hash_order(by_id)})

    @property
    def required_topics(self) -> frozenset[str]:
        """The names of all source, repartition and changelog topics."""
        return frozenset(
            name
            for each in self.subtopologies.values()
            for name in (
                *source_names(each),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the subtopology that reads a topic; None if there is none."""
        found = None
        for subtopology_id, each in self.subtopologies.items():
            if topic in source_names(each):
                found = subtopology_id
        return found


def source_names(subtopology: Subtopology) -> list[str]:
    """Return the names of the topics that a subtopology reads."""
    return [
        *subtopology.source_topics,
        *(each.name for each in subtopology.repartition_source_topics),
    ]


def copartition_groups(subtopology: Subtopology) -> Iterator[frozenset[str]]:
    """Yield the names of the topics of each copartition group.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the index of a topic is out of range.
    """
    sources = subtopology.source_topics
    repartition = subtopology.repartition_source_topics
    for each in subtopology.copartition_groups:
        if not (
            _fit(each.source_topics, sources) and _fit(each.repartition_source_topics, repartition)
        ):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, OUT_OF_RANGE)
        yield frozenset(
            (
                *(sources[index] for index in each.source_topics),
                *(repartition[index].name for index in each.repartition_source_topics),
            )
        )


def _fit(indexes: Iterable[int], topics: list[str] | list[TopicInfo]) -> bool:
    return all(0 <= each < len(topics) for each in indexes)


def topology_value(topology: request.Topology) -> StreamsGroupTopologyValue:
    """Return the topology of a request as the value of a record."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=[
                    _topic_info(topic) for topic in each.state_changelog_topics
                ],
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=[
                    _topic_info(topic) for topic in each.repartition_source_topics
                ],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topic_info(topic: request.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
    )
