"""The assignor `range`: each member gets a range of the partitions of each topic.

If members name their racks, partitions that have a replica in a member's rack are assigned first
(KIP-881). Topics with the same members and the same number of partitions are then assigned
together, so that a member gets the same partitions of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.client.core.assignors.group import (
    Assignments,
    Assignor,
    Members,
    Topics,
    as_java,
    static_first,
)
from odradek.model.topic_partition import TopicPartition


class _TopicShares:
    """The assignment of one topic while it is made."""

    def __init__(self, topic: str, racks: Sequence[frozenset[str]], members: Members) -> None:
        self.topic = topic
        self.members = static_first((m for m, w in members.items() if topic in w.topics), members)
        self.racks = {m: members[m].rack for m in self.members}
        self.partition_racks = racks if any(self.racks.values()) else ()
        """Empty if no member of the topic has a rack."""
        self.left = list(range(len(racks)))
        self._each, self._extra = divmod(len(racks), len(self.members)) if self.members else (0, 0)
        self._counts = dict.fromkeys(self.members, 0)

    @property
    def prefers_racks(self) -> bool:
        """Whether racks make a difference."""
        of_members = {each for each in self.racks.values() if each}
        of_partitions = frozenset().union(*self.partition_racks)
        if not of_members & of_partitions:
            return False
        return any(each != of_partitions for each in self.partition_racks)

    def matches(self, member: str, index: int) -> bool:
        """Whether a partition has a replica in the rack of a member. A member may have no rack."""
        rack = self.racks[member]
        return not rack or (bool(self.partition_racks) and rack in self.partition_racks[index])

    def room(self, member: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._each + (self._extra > 0) - self._counts[member])

    def give(self, member: str, indexes: list[int], assignments: Assignments) -> None:
        """Assign partitions to a member."""
        assignments[member] += (TopicPartition(self.topic, index) for index in indexes)
        self._counts[member] += len(indexes)
        if self._counts[member] > self._each:
            self._extra -= 1
        given = set(indexes)
        self.left = [index for index in self.left if index not in given]

    def give_ranges(self, assignments: Assignments, *, in_rack: bool) -> None:
        """Assign what is left, in order; with `in_rack` only to members in the right racks."""
        for member in self.members:
            found = [i for i in self.left if not in_rack or self.matches(member, i)]
            found = found[: self.room(member)]
            if found:
                self.give(member, found, assignments)


def assign_range(topics: Topics, members: Members) -> Assignments:
    """Assign each member a range of partitions of each topic.

    If the partitions cannot be divided evenly, the first members get one partition more.
    """
    assignments: Assignments = {member: [] for member in members}
    shares = [_TopicShares(topic, topics[topic], members) for topic in sorted(topics, key=as_java)]
    if any(each.prefers_racks for each in shares):
        together: dict[tuple[object, ...], list[_TopicShares]] = {}
        for each in shares:
            key = tuple(each.racks.items()), len(each.partition_racks)
            together.setdefault(key, []).append(each)
        for some in together.values():
            if len(some) > 1:
                _give_together(some, assignments)
            elif some[0].prefers_racks:
                some[0].give_ranges(assignments, in_rack=True)
    for each in shares:
        each.give_ranges(assignments, in_rack=False)
    return {member: sorted(some) for member, some in assignments.items()}


def _give_together(shares: list[_TopicShares], assignments: Assignments) -> None:
    """Assign the same partitions of several topics to members in the right racks."""
    remaining = list(shares[0].members)
    for index in range(len(shares[0].partition_racks)):
        for member in remaining:
            if all(each.matches(member, index) and each.room(member) for each in shares):
                for each in shares:
                    each.give(member, [index], assignments)
                if not any(each.room(member) for each in shares):
                    remaining.remove(member)
                break


RANGE = Assignor("range", assign_range)
