"""The assignor `roundrobin`: all partitions in order, one to each subscribed member in turn."""

from __future__ import annotations

from odradek.client.core.assignors.group import (
    Assignments,
    Assignor,
    Members,
    Topics,
    as_java,
    static_first,
)
from odradek.model.topic_partition import TopicPartition


def assign_round_robin(topics: Topics, members: Members) -> Assignments:
    """Assign all partitions in order, one to each subscribed member in turn."""
    assignments: Assignments = {member: [] for member in members}
    order = static_first(members, members)
    turn = 0
    for topic in sorted(topics, key=as_java):
        if not any(topic in member.topics for member in members.values()):
            continue
        for index in range(len(topics[topic])):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            assignments[order[turn % len(order)]].append(TopicPartition(topic, index))
            turn += 1
    return assignments


ROUND_ROBIN = Assignor("roundrobin", assign_round_robin)
