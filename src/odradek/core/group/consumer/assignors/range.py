"""The range assignor (Kafka's `RangeAssignor`)."""

from __future__ import annotations

from odradek.core.group.consumer.assignors.group_spec import GroupSpec
from odradek.core.group.modern.assignment import Assignment, ordered_set
from odradek.model.java_order import JavaHashTable, roomy_capacity, uuid_hash


class _Topic:
    """The unassigned partitions of one topic."""

    __slots__ = ("extra", "next", "quota")

    def __init__(self, partition_count: int, member_count: int) -> None:
        self.quota, self.extra = divmod(partition_count, member_count)
        self.next = 0

    def take(self) -> range:
        """Remove and return the partitions for the next member."""
        start = self.next
        self.next += self.quota
        if self.extra:
            self.next += 1
            self.extra -= 1
        return range(start, self.next)


def assign_ranges(group: GroupSpec) -> dict[str, Assignment]:
    """Assign ranges of partitions to the members in order.

    Static members come first, sorted by instance id. Then come the others, sorted by member id.
    """
    subscribers: dict[bytes, int] = {}
    for member in group.members.values():
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(group.partition_counts[topic_id], count)
        for topic_id, count in subscribers.items()
    }

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    targets: dict[str, Assignment] = {}
    for member_id in sorted(group.members, key=rank):
        member = group.members[member_id]
        taken = {topic_id: topics[topic_id].take() for topic_id in member.topic_ids}
        # Kafka counts existing topics in a homogeneous group, and topic names in any other group.
        count = len(taken) if group.is_homogeneous else member.topic_name_count
        order = JavaHashTable(uuid_hash, roomy_capacity(count))
        for topic_id, partitions in taken.items():
            if partitions:
                order.put(topic_id)
        targets[member_id] = {topic_id: ordered_set(taken[topic_id]) for topic_id in order}
    return targets
