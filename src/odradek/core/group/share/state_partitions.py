"""The partitions whose share state is initializing, initialized, or being deleted.

This is the content of a ShareGroupStatePartitionMetadata record. The share state itself is stored
by the share coordinator. A partition is initializing while the group coordinator waits for the
share coordinator, and initialized when it may be assigned to members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class TopicState(NamedTuple):
    """Partitions of a topic. `timestamp_ms` is the time at which their record was replayed."""

    name: str
    partitions: frozenset[int]
    timestamp_ms: int


Topics = Mapping[bytes, TopicState]
"""Partitions by topic id."""
Partitions = Mapping[bytes, AbstractSet[int]]
"""Partitions by topic id."""
NO_TOPICS: Topics = {}


class StatePartitions(NamedTuple):
    """The partitions of a group, by the state of their share state."""

    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: frozenset[bytes] = frozenset()

    def begun(self, topics: Topics) -> StatePartitions:
        """Return the partitions after the initialization of `topics` was begun."""
        initializing = united(self.initializing, topics)
        return self._replace(
            initializing=initializing, deleting=self.deleting.difference(initializing)
        )

    def ended(self, topics: Topics) -> StatePartitions:
        """Return the partitions after `topics` were initialized."""
        return self._replace(
            initializing=without(self.initializing, _partitions(topics)),
            initialized=united(self.initialized, topics),
        )

    def failed(self, partitions: Partitions) -> StatePartitions:
        """Return the partitions after the initialization of `partitions` has failed."""
        return self._replace(initializing=without(self.initializing, partitions))

    def without_topics(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Return the partitions without deleted topics."""
        return StatePartitions(
            {key: each for key, each in self.initializing.items() if key not in topic_ids},
            {key: each for key, each in self.initialized.items() if key not in topic_ids},
            self.deleting.difference(topic_ids),
        )


def united(first: Topics, second: Topics) -> dict[bytes, TopicState]:
    """Return the partitions of both. Names and times are from `second`, if it has the topic."""
    topics = dict(first)
    for topic_id, added in second.items():
        before = topics.get(topic_id)
        known = frozenset[int]() if before is None else before.partitions
        topics[topic_id] = added._replace(partitions=known | added.partitions)
    return topics


def without(topics: Topics, partitions: Partitions) -> dict[bytes, TopicState]:
    """Return the topics without some partitions. Topics without partitions are removed."""
    kept = {}
    for topic_id, topic in topics.items():
        removed = partitions.get(topic_id)
        if removed is None:
            kept[topic_id] = topic
        elif not topic.partitions <= removed:
            kept[topic_id] = topic._replace(partitions=topic.partitions - removed)
    return kept


def newer(topics: Topics, timestamp_ms: int) -> Topics:
    """Return the topics whose timestamp is higher than `timestamp_ms`."""
    return {key: each for key, each in topics.items() if each.timestamp_ms > timestamp_ms}


def _partitions(topics: Topics) -> Partitions:
    return {topic_id: topic.partitions for topic_id, topic in topics.items()}


def merged(pairs: Iterable[tuple[bytes, Iterable[int]]]) -> dict[bytes, set[int]]:
    """Return the partitions of each topic. A topic may occur several times."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partitions in pairs:
        found.setdefault(topic_id, set()).update(partitions)
    return found
