"""How the leader of a classic group shares out partitions; the results are those of the Java client.

A group picks an assignor that all members know, so names and results are part of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.model.topic_partition import TopicPartition

PartitionCounts = Mapping[str, int]
"""By topic; topics that do not exist are left out."""
Subscriptions = Mapping[str, Sequence[str]]
"""Topics by member."""
Assignments = dict[str, list[TopicPartition]]
"""Partitions by member; every member is there."""

Assignor = Callable[[PartitionCounts, Subscriptions], Assignments]


def assign_range(counts: PartitionCounts, subscriptions: Subscriptions) -> Assignments:
    """Of each topic a run of partitions per member; the first members get one more (`range`)."""
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
    """All partitions in order, one to each subscribed member in turn (`roundrobin`)."""
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
