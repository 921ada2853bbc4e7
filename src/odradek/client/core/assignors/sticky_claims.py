"""What the sticky assignors know of a group: who owned what, and racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.core.assignors.group import Members, Topics, as_java
from odradek.model.java_order import java_hash_order
from odradek.model.topic_partition import TopicPartition

NO_GENERATION = -1


class Claim(NamedTuple):
    """The partitions that a member says it owned, and in which generation it got them."""

    partitions: Sequence[TopicPartition]
    generation_id: int = NO_GENERATION


Claims = Mapping[str, Claim]


class Ownership:
    """The valid claims of all members, in the order in which Java visits the members.

    Of two claims to the same partition, the one with the higher generation is valid; of two in the
    same generation none is.
    """

    def __init__(self, topics: Topics, members: Members, claims: Claims) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}
        self.disputed: set[TopicPartition] = set()
        """Partitions that two members claimed in the same generation."""
        self.generation_id_max = NO_GENERATION
        self._owners: dict[TopicPartition, str] = {}
        for member_id in java_hash_order(members):
            claim = claims[member_id]
            self.generation_id_max = max(self.generation_id_max, claim.generation_id)
            self.owned[member_id] = []
            for each in claim.partitions:
                if each.topic in topics and each.partition < len(topics[each.topic]):
                    self._claim(each, member_id, claim.generation_id, members)

    def _claim(
        self, partition: TopicPartition, member_id: str, generation_id: int, members: Members
    ) -> None:
        other = self._owners.get(partition)
        if other is not None:
            # Java compares with this field also if the claim of the other was in its user data.
            generation_id_of_other = members[other].generation_id
            if generation_id < generation_id_of_other:
                return
            if partition in self.owned[other]:
                self.owned[other].remove(partition)
            self._owners[partition] = member_id
            if generation_id == generation_id_of_other:
                self.disputed.add(partition)
                return
        self.owned[member_id].append(partition)
        self._owners[partition] = member_id


class Racks:
    """The racks of members and partitions (KIP-881)."""

    def __init__(self, topics: Topics, members: Members) -> None:
        self.of_members: Mapping[str, str] = {}
        """Empty if racks make no difference."""
        self._of_partitions: Mapping[TopicPartition, frozenset[str]] = {}
        self._members_near: Mapping[TopicPartition, int] = {}
        racks = {member_id: each.rack for member_id, each in members.items() if each.rack}
        if not racks:
            return
        of_partitions = {
            TopicPartition(topic, index): each
            for topic, partitions in topics.items()
            for index, each in enumerate(partitions)
        }
        counts = Counter(racks.values())
        self._members_near = {
            partition: sum(counts[rack] for rack in some)
            for partition, some in of_partitions.items()
        }
        union = frozenset().union(*of_partitions.values())
        if union & counts.keys() and any(some != union for some in of_partitions.values()):
            self.of_members = racks
            self._of_partitions = of_partitions

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and the partition has no replica in it."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack not in self._of_partitions.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and the partition has a replica in it."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack in self._of_partitions.get(partition, ())

    def rarest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members in their racks."""
        if not self._members_near:
            return partitions
        return sorted(partitions, key=self._members_near.__getitem__)

    def next_match(self, partition: TopicPartition, ids: list[str], start: int) -> int:
        """Return the index of the next member in a rack of a partition, from `start` around; or -1."""
        for step in range(len(ids)):
            index = (start + step) % len(ids)
            if self.match(ids[index], partition):
                return index
        return -1


def all_partitions(topics: Topics, order: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of topics."""
    return [TopicPartition(topic, index) for topic in order for index in range(len(topics[topic]))]


def by_name(names: Iterable[str]) -> list[str]:
    """Sort names as Java does."""
    return sorted(names, key=as_java)
