"""Counts subscribers by topic and by pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class TopicCount(NamedTuple):
    """The number of members that subscribe to a topic by name, and of patterns that match it."""

    names: int = 0
    regexes: int = 0


class ResolvedRegex(NamedTuple):
    """The topics that match a pattern."""

    topics: frozenset[str]
    version: int
    """The version of the metadata that contained the topics."""
    timestamp_ms: int


NO_COUNT = TopicCount()
UNRESOLVED = ResolvedRegex(frozenset(), 0, -1)

TopicCounts = Mapping[str, TopicCount]


def adjusted(count: TopicCount | None, names: int = 0, regexes: int = 0) -> TopicCount | None:
    """Return the count after a change; None if there is no subscriber left."""
    before = count or NO_COUNT
    after = TopicCount(max(before.names + names, 0), max(before.regexes + regexes, 0))
    return None if after == NO_COUNT else after


def adjust_all(
    counts: dict[str, TopicCount], topics: Iterable[str], names: int = 0, regexes: int = 0
) -> None:
    """Adjust the counts of many topics in place."""
    for topic in topics:
        count = adjusted(counts.get(topic), names, regexes)
        if count is None:
            counts.pop(topic, None)
        else:
            counts[topic] = count


def is_homogeneous(
    regex_counts: Mapping[str, int], topic_counts: TopicCounts, member_count: int
) -> bool:
    """Return whether all members subscribe to the same topics, all by name or all by pattern."""
    if not regex_counts:
        return all(count.names == member_count for count in topic_counts.values())
    if next(iter(regex_counts.values())) != member_count:
        return False
    return all(count.regexes == 1 and count.names == 0 for count in topic_counts.values())
