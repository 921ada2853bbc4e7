"""Assignors of classic groups. The leader of a group runs the group's assignor.

The coordinator chooses an assignor that all members support, and any client may be the leader. So
the names and the results are the same as in the Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.model.topic_partition import TopicPartition

PartitionCounts = Mapping[str, int]
"""The number of partitions by topic, without topics that do not exist."""
Subscriptions = Mapping[str, Sequence[str]]
"""The subscribed topics by member."""
Assignments = dict[str, list[TopicPartition]]
"""The assigned partitions by member, with an entry for every member."""

Assignor = Callable[[PartitionCounts, Subscriptions], Assignments]


def assign_range(counts: PartitionCounts, subscriptions: Subscriptions) -> Assignments:
    """Assign each member a range of partitions of each topic (`range`).

    If the partitions cannot be divided evenly, the first members get one partition more.
    """
    assignments: Assignments = {member: [] for member in subscriptions}
    for topic in sorted(counts):
        members = sorted(m for m, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        each, extra = divmod(counts[topic], len(members))
        start = 0
        for place, member in enumerate(members):
            stop = start + each + (place < extra)
            assignments[member] += (TopicPartition(topic, index) for index in range(start, stop))
            start = stop
    return assignments


def assign_round_robin(counts: PartitionCounts, subscriptions: Subscriptions) -> Assignments:
    """Assign all partitions in order, one to each subscribed member in turn (`roundrobin`)."""
    assignments: Assignments = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for topic in sorted(counts):
        if not any(topic in topics for topics in subscriptions.values()):
            continue
        for index in range(counts[topic]):
            while topic not in subscriptions[members[turn % len(members)]]:
                turn += 1
            assignments[members[turn % len(members)]].append(TopicPartition(topic, index))
            turn += 1
    return assignments


ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}
