"""Which internal topics an application needs, and which partitions belong to which task.

All topics that a subtopology reads need the same number of partitions: task n reads partition n of each.
(Kafka Streams also runs topologies that read topics with different numbers, if none is joined.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.topology.definition import Subtopology, Topology

DAY_MS = 86_400_000
REPARTITION_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
    "message.timestamp.type": "CreateTime",
}


class InternalTopic(NamedTuple):
    """A repartition or changelog topic."""

    name: str
    partitions: int
    settings: dict[str, str]


class Layout:
    """The subtopologies with their numbers of tasks, and the internal topics.

    `partitions` has the number of partitions of each topic that exists.

    Raises:
        TopologyError: a topic is missing, or topics that are read together have different numbers of
            partitions.
    """

    def __init__(self, topology: Topology, partitions: Mapping[str, int]) -> None:
        self._topology = topology
        self.subtopologies = topology.subtopologies()
        self._internal = {
            topic: count
            for each in self.subtopologies
            for topic, count in each.repartition_sources.items()
        }
        self.partitions = self._counts(partitions)
        self.tasks = {each.number: self._task_count(each) for each in self.subtopologies}
        self._by_topic = {
            topic: each for each in self.subtopologies for topic in each.source_topics
        }

    @property
    def repartition_topics(self) -> Collection[str]:
        """Return the names of the repartition topics."""
        return self._internal.keys()

    def source_topics(self) -> list[str]:
        """Return the topics that tasks read."""
        return list(self._by_topic)

    def subtopology_of(self, topic: str) -> Subtopology:
        """Return the subtopology that reads a topic."""
        return self._by_topic[topic]

    def internal_topics(self) -> list[InternalTopic]:
        """Return the internal topics, whether they exist or not."""
        found = [
            InternalTopic(
                name,
                self.partitions[name],
                REPARTITION_SETTINGS,
            )
            for name in self._internal
        ]
        for each in self.subtopologies:
            for name, store in each.changelogs.items():
                if store.name not in self._topology.source_changelogs:
                    found.append(
                        InternalTopic(name, self.tasks[each.number], changelog_settings(store))
                    )
        return found

    def _counts(self, existing: Mapping[str, int]) -> dict[str, int]:
        """Return the numbers of partitions of all topics that are read."""
        counts: dict[str, int] = {}
        missing: list[str] = []
        for each in self.subtopologies:
            for topic in each.source_topics:
                if topic in self._internal:
                    fixed = self._internal[topic]
                    if fixed is not None:
                        counts[topic] = fixed
                elif topic in existing:
                    counts[topic] = existing[topic]
                else:
                    missing.append(topic)
        if missing:
            raise TopologyError(
                f"missing source topics: {', '.join(sorted(missing))}; create them first"
            )
        self._copartition(counts)
        while any(topic not in counts for topic in self._internal):
            if not self._infer(counts):
                unknown = sorted(topic for topic in self._internal if topic not in counts)
                raise TopologyError(
                    f"the number of partitions of {', '.join(unknown)} is not known: say partitions= in "
                    "repartition"
                )
            self._copartition(counts)
        for topic in self._internal:
            if topic in existing and existing[topic] != counts[topic]:
                raise TopologyError(
                    f"{topic} exists with {existing[topic]} partitions, but the topology needs "
                    f"{counts[topic]}; `odradek streams reset` deletes it"
                )
        return counts

    def _infer(self, counts: dict[str, int]) -> bool:
        """Give repartition topics as many partitions as the topics before them have at most."""
        has_changed = False
        for topic in self._internal:
            if topic in counts:
                continue
            before = [
                counts.get(source)
                for each in self.subtopologies
                if topic in each.sink_topics
                for source in each.source_topics
            ]
            known = [count for count in before if count is not None]
            if known and len(known) == len(before):
                counts[topic] = max(known)
                has_changed = True
        return has_changed

    def _copartition(self, counts: dict[str, int]) -> None:
        """Give repartition topics as many partitions as those that they are joined with."""
        for group in self._topology.copartition_groups():
            given = {
                topic: counts[topic]
                for topic in group
                if topic not in self._internal and topic in counts
            }
            if len(set(given.values())) > 1:
                raise TopologyError(
                    "topics that are joined need the same number of partitions: "
                    + ", ".join(f"{topic} has {count}" for topic, count in sorted(given.items()))
                )
            known = list(given.values()) or [counts[topic] for topic in group if topic in counts]
            fixed = any(self._internal.get(topic) is not None for topic in group)
            if given or (fixed and known):
                for topic in group:
                    if topic in self._internal:
                        counts[topic] = max(known)

    def _task_count(self, each: Subtopology) -> int:
        counts = {topic: self.partitions[topic] for topic in each.source_topics}
        if len(set(counts.values())) > 1:
            raise TopologyError(
                f"topics that subtopology {each.number} reads together need the same number of "
                "partitions: "
                + ", ".join(f"{topic} has {count}" for topic, count in sorted(counts.items()))
                + "; a repartition() before they come together gives them the same"
            )
        return max(counts.values())


def changelog_settings(store: StoreDefinition) -> dict[str, str]:
    """Return the settings of a changelog topic, which are those of Kafka Streams."""
    settings = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    if store.kind in (Kind.WINDOW, Kind.SESSION):
        settings["cleanup.policy"] = "delete" if store.retains_duplicates else "compact,delete"
        settings["retention.ms"] = str(min(store.retention_ms + DAY_MS, 2**63 - 1))
    elif store.kind is Kind.VERSIONED:
        settings["min.compaction.lag.ms"] = str(store.history_ms + DAY_MS)
    settings.update(store.log_settings)
    return settings
