"""Counts subscribers by topic and by pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class TopicCount(NamedTuple):
    """Number of subscriptions of a topic: by name, and by patterns that match it."""

    names: int = 0
    regexes: int = 0


class ResolvedRegex(NamedTuple):
    """The topics that matched a pattern."""

    topics: frozenset[str]
    version: int
    """The version of the metadata that was searched."""
    timestamp_ms: int


NO_COUNT = TopicCount()
UNRESOLVED = ResolvedRegex(frozenset(), 0, -1)

TopicCounts = Mapping[str, TopicCount]


def adjusted(count: TopicCount | None, names: int = 0, regexes: int = 0) -> TopicCount | None:
    """The count after a change; None if there is no subscriber left."""
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
    """Whether all members subscribe to the same topics, in the same way."""
    if not regex_counts:
        return all(count.names == member_count for count in topic_counts.values())
    if next(iter(regex_counts.values())) != member_count:
        return False
    return all(count.regexes == 1 and count.names == 0 for count in topic_counts.values())
