"""Configures a topology: computes the numbers of tasks and of partitions of internal topics.

The topology may set the number of partitions of a repartition topic. Otherwise a repartition topic
has as many partitions as the largest topic that its writing subtopology reads. All topics of a
copartition group must have the same number of partitions. A changelog topic has one partition for
each task. An internal topic that exists must have the computed number of partitions.

The model is Apache Kafka's `InternalTopicManager` with `RepartitionTopics`,
`CopartitionedTopicsEnforcer` and `ChangelogTopics`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.core.group.streams.status import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
)
from odradek.core.group.streams.topology import Topology, copartition_groups, source_names
from odradek.core.metadata.image import TopicsImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_hash import java_hash
from odradek.model.java_order import JavaHashTable, java_hash_order
from odradek.wire.generated.create_topics_request import CreatableTopic, CreatableTopicConfig
from odradek.wire.generated.streams_group_topology_value import Subtopology, TopicInfo

NAMES_SHOWN: Final = 3
DEFAULT_REPLICATION_FACTOR: Final = -1


class InternalTopic(NamedTuple):
    """A repartition or changelog topic."""

    name: str
    partitions: int
    replication_factor: int
    """0 if the topology does not set it."""
    configs: Mapping[str, str]

    def creatable(self) -> CreatableTopic:
        """Return the topic for a CreateTopics request."""
        return CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=self.replication_factor or DEFAULT_REPLICATION_FACTOR,
            configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in self.configs.items()
            ],
        )


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose number of tasks is known."""

    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        """Whether the subtopology has state, so that its tasks may have standby tasks."""
        return bool(self.state_changelog_topics)


class Problem(NamedTuple):
    """Why a topology is not ready: a status code and its text."""

    status: int
    detail: str


class ConfiguredTopology(NamedTuple):
    """The result. Without a problem, the topology is ready and tasks can be assigned."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """By id, sorted. None if the numbers of partitions cannot be computed."""
    missing: Mapping[str, CreatableTopic]
    """The internal topics that must be created."""
    problem: Problem | None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


class _Invalid(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configure(topology: Topology, topics: TopicsImage) -> ConfiguredTopology:
    """Configure a topology.

    Raises:
        ApiError: STREAMS_INVALID_TOPOLOGY: the topology cannot be valid, whatever topics exist.
            UNKNOWN_SERVER_ERROR: the topology is malformed.
    """
    try:
        return _Configuration(topology, topics).run()
    except _Invalid as error:
        return ConfiguredTopology(topology.epoch, None, {}, error.problem)


class _Configuration:
    """One run. `_decided` has the computed numbers of partitions of internal topics."""

    def __init__(self, topology: Topology, topics: TopicsImage) -> None:
        self._topology = topology
        self._subtopologies = topology.subtopologies
        self._topics = topics
        self._decided: dict[str, int] = {}

    def run(self) -> ConfiguredTopology:
        self._check_source_topics()
        self._count_repartition_topics()
        self._enforce_copartitioning()
        self._count_changelog_topics()
        configured = {
            subtopology_id: self._configured(self._subtopologies[subtopology_id])
            for subtopology_id in sorted(self._subtopologies)
        }
        missing = self._missing(configured.values())
        problem = None
        if missing:
            detail = f"Internal topics are missing: {_summary(missing)}"
            problem = Problem(MISSING_INTERNAL_TOPICS, detail)
        return ConfiguredTopology(self._topology.epoch, configured, missing, problem)

    def _count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic that exists, or the computed number."""
        image = self._topics.by_name.get(topic)
        return self._decided.get(topic) if image is None else len(image.partitions)

    def _known_count(self, topic: str) -> int:
        count = self._count(topic)
        if count is None:
            raise _malformed(f"Number of partitions is not set for topic: {topic}")
        return count

    # -- steps ----------------------------------------------------------------------------------

    def _check_source_topics(self) -> None:
        missing = sorted(
            {
                name
                for each in self._subtopologies.values()
                for name in each.source_topics
                if name not in self._topics.by_name
            }
        )
        if missing:
            detail = f"Source topics {_summary(missing)} are missing."
            raise _Invalid(MISSING_SOURCE_TOPICS, detail)

    def _count_repartition_topics(self) -> None:
        counts: dict[str, int] = {}
        for each in self._subtopologies.values():
            for topic in each.repartition_source_topics:
                if topic.partitions != 0:
                    counts[topic.name] = topic.partitions
        needs_count = True
        while needs_count:
            needs_count = has_progress = False
            for each in self._subtopologies.values():
                for sink in each.repartition_sink_topics:
                    if sink in counts:
                        continue
                    found = self._largest_source(each, counts)
                    if found is None:
                        needs_count = True
                    else:
                        counts[sink] = found
                        has_progress = True
            if needs_count and not has_progress:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. There may "
                    "be loops in the topology that cannot be resolved."
                )
        for each in self._subtopologies.values():
            if any(topic.name not in counts for topic in each.repartition_source_topics):
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
        self._decided.update(counts)

    def _largest_source(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        candidates = [counts.get(each.name) for each in subtopology.repartition_source_topics]
        candidates += [self._count(each) for each in subtopology.source_topics]
        return max((each for each in candidates if each is not None), default=None)

    def _enforce_copartitioning(self) -> None:
        fixed: set[str] = set()
        flexible: set[str] = set()
        for each in self._subtopologies.values():
            for topic in each.repartition_source_topics:
                (fixed if topic.partitions else flexible).add(topic.name)
        for each in self._subtopologies.values():
            for group in copartition_groups(each):
                self._decided.update(self._enforce(group, fixed, flexible))

    def _enforce(
        self, group: frozenset[str], fixed: set[str], flexible: set[str]
    ) -> dict[str, int]:
        """Return the numbers of partitions of the repartition topics of a copartition group."""
        if not group:
            return {}
        counts = {name: self._known_count(name) for name in group if name in fixed | flexible}
        external = {name: self._known_count(name) for name in group if name not in counts}
        if external:
            count = _same(external)
        elif fixed:
            numbers = {self._known_count(name) for name in fixed}
            if len(numbers) > 1:
                raise _Invalid(INCORRECTLY_PARTITIONED_TOPICS, _different(counts))
            count = numbers.pop()
        else:
            count = max(counts.values())
        for name, present in counts.items():
            if name in fixed and present != count:
                raise _Invalid(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{present}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{count}] of the source topic.",
                )
        return dict.fromkeys(counts, count)

    def _count_changelog_topics(self) -> None:
        counts: dict[str, int] = {}
        for subtopology_id, each in self._subtopologies.items():
            names = set(source_names(each))
            if not names:
                raise _invalid(f"No source topics found for subtopology {subtopology_id}")
            largest = max(self._known_count(name) for name in names)
            for topic in each.state_changelog_topics:
                counts[topic.name] = largest
        self._decided.update(counts)

    # -- results --------------------------------------------------------------------------------

    def _configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        names = source_names(subtopology)
        return ConfiguredSubtopology(
            max(self._known_count(name) for name in names),
            frozenset(subtopology.source_topics),
            {each.name: self._internal(each) for each in subtopology.repartition_source_topics},
            frozenset(subtopology.repartition_sink_topics),
            {each.name: self._internal(each) for each in subtopology.state_changelog_topics},
        )

    def _internal(self, topic: TopicInfo) -> InternalTopic:
        count = topic.partitions or self._decided.get(topic.name)
        if count is None:
            raise _malformed(f"Number of partitions must be set for topic {topic.name}")
        configs = {each.key: each.value for each in topic.topic_configs}
        return InternalTopic(topic.name, count, topic.replication_factor, configs)

    def _missing(self, subtopologies: Iterable[ConfiguredSubtopology]) -> dict[str, CreatableTopic]:
        """Return the internal topics that do not exist, in the order of Apache Kafka's `HashMap`."""
        wanted: dict[str, InternalTopic] = {}
        order = JavaHashTable[str](java_hash)
        for each in subtopologies:
            for kind in (each.repartition_source_topics, each.state_changelog_topics):
                for name in java_hash_order(kind):
                    wanted[name] = kind[name]
                    order.put(name)
        missing = {}
        for name in order:
            image = self._topics.by_name.get(name)
            if image is None:
                missing[name] = wanted[name].creatable()
            elif len(image.partitions) != wanted[name].partitions:
                raise _Invalid(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected "
                    f"{wanted[name].partitions}, found {len(image.partitions)}",
                )
        return missing


def _same(external: Mapping[str, int]) -> int:
    """Return the number of partitions of topics, which must be the same for all."""
    numbers = set(external.values())
    if len(numbers) > 1:
        raise _Invalid(INCORRECTLY_PARTITIONED_TOPICS, _different(external))
    return numbers.pop()


def _different(counts: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
    return f"Following topics do not have the same number of partitions: [{{{shown}}}]"


def _summary(names: Collection[str]) -> str:
    """Return the first names, and the number of the others."""
    shown = ", ".join(list(names)[:NAMES_SHOWN])
    if len(names) <= NAMES_SHOWN:
        return shown
    return f"{shown} and {len(names) - NAMES_SHOWN} additional topics"


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _malformed(message: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
