"""The sticky assignment of a group whose members have the same subscription.

Each member gets the same number of partitions, or one more. In the order of a Java hash table the
members keep what they owned, up to their share. The other partitions go in turn to the members
that have too few.
"""

from __future__ import annotations

from odradek.client.core.assignors.group import Assignments, Topics
from odradek.client.core.assignors.sticky_claims import Ownership, Racks, all_partitions, by_name
from odradek.model.topic_partition import TopicPartition


class EqualShares:
    """An assignment while it is made. `assignments` and `moved` are the result of `make`."""

    def __init__(self, topics: Topics, ownership: Ownership, racks: Racks) -> None:
        self.assignments: Assignments = {member_id: [] for member_id in ownership.owned}
        self.moved: dict[TopicPartition, str] = {}
        """The new owners of partitions that another member may still own."""
        self._topics = topics
        self._ownership = ownership
        self._racks = racks
        total = sum(map(len, topics.values()))
        self._least, self._extra = divmod(total, len(ownership.owned))
        self._most = self._least + (self._extra > 0)
        """`_extra` members get `_most` partitions, the others get `_least`."""
        self._with_most = 0
        self._below: list[str] = []
        """Members with fewer partitions than `_least`."""
        self._at_least: list[str] = []
        """Members with `_least` partitions that may get one more."""
        self._revoked: dict[TopicPartition, str] = {}

    def make(self) -> None:
        """Assign all partitions."""
        for member_id, partitions in self._ownership.owned.items():
            self._keep(member_id, partitions)
        kept = {each for some in self.assignments.values() for each in some}
        names = by_name(self._topics)
        left = [each for each in all_partitions(self._topics, names) if each not in kept]
        self._below = by_name(self._below)
        self._at_least = by_name(self._at_least)
        left = self._racks.rarest_first(left)
        if self._racks.of_members:
            left = self._assign_in_racks(left)
        self._assign(left)

    def _keep(self, member_id: str, partitions: list[TopicPartition]) -> None:
        """Let a member keep what it owned, up to its share."""
        owned = []
        for each in sorted(partitions, key=lambda p: (p.partition, p.topic)):
            if self._racks.mismatch(member_id, each):
                self._revoked[each] = member_id
            elif each not in self._ownership.disputed:
                owned.append(each)
        if len(owned) < self._least:
            self._below.append(member_id)
            count = len(owned)
        elif len(owned) >= self._most and self._with_most < self._extra:
            count = self._most
            self._count_full()
        else:
            count = self._least
            if self._with_most < self._extra:
                self._at_least.append(member_id)
        self.assignments[member_id] += owned[:count]
        self._revoked.update(dict.fromkeys(owned[count:], member_id))

    def _count_full(self) -> None:
        """Count a member that has got one partition more than the others."""
        self._with_most += 1
        if self._with_most == self._extra:
            self._at_least.clear()

    def _assign_in_racks(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Assign to members in the racks of partitions, in turn. Return the other partitions."""
        left = []
        start = 0
        for each in partitions:
            found = self._racks.next_match(each, self._below, start)
            if found >= 0:
                start = self._assign_below(each, found)
                continue
            found = self._racks.next_match(each, self._at_least, 0)
            if found < 0:
                left.append(each)
                continue
            member_id = self._at_least[found]
            if len(self.assignments[member_id]) + 1 == self._most:
                del self._at_least[found]
                self._count_full()
            self._give(each, member_id)
        return left

    def _assign_below(self, partition: TopicPartition, index: int) -> int:
        """Assign to a member with too few partitions. Return the index of the member to try next."""
        member_id = self._below[index]
        count = self._give(partition, member_id)
        if count < self._least:
            index += 1
        else:
            del self._below[index]
            if count < self._most and self._with_most < self._extra:
                self._at_least.append(member_id)
        return index % len(self._below) if self._below else 0

    def _assign(self, partitions: list[TopicPartition]) -> None:
        """Assign in turn, first to members with too few partitions."""
        turn = 0
        for each in partitions:
            if not self._below:
                self._give(each, self._at_least.pop(0))
                continue
            turn %= len(self._below)
            member_id = self._below[turn]
            if self._give(each, member_id) == self._least:
                del self._below[turn]
                self._at_least.append(member_id)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        """Assign a partition. Return how many the member has."""
        some = self.assignments[member_id]
        some.append(partition)
        if self._revoked.get(partition, member_id) != member_id or (
            partition in self._ownership.disputed
        ):
            self.moved[partition] = member_id
        return len(some)
