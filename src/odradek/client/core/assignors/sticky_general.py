"""The sticky assignment of a group whose members have different subscriptions.

Members keep what they owned. Each other partition goes to the member with the fewest partitions of
those that are subscribed to its topic. Then partitions move, one after another, as long as this
makes the numbers of partitions more equal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from odradek.client.core.assignors.group import Assignments, Members, Topics, as_java
from odradek.client.core.assignors.sticky_claims import Claims, Ownership, Racks, all_partitions
from odradek.client.core.assignors.sticky_moves import Moves
from odradek.model.topic_partition import TopicPartition


class _Loads:
    """The assignments, and the members ordered by their number of partitions, then by id."""

    def __init__(self, owned: dict[str, set[TopicPartition]]) -> None:
        self.of = owned
        self._keys = {member_id: as_java(member_id) for member_id in owned}
        self.owner = {each: member_id for member_id, some in owned.items() for each in some}
        self._order = sorted(map(self._place, owned))

    def _place(self, member_id: str) -> tuple[int, bytes, str]:
        return len(self.of[member_id]), self._keys[member_id], member_id

    @property
    def least(self) -> int:
        """The smallest number of partitions of a member."""
        return self._order[0][0]

    @property
    def most(self) -> int:
        """The largest number of partitions of a member."""
        return self._order[-1][0]

    def size(self, member_id: str) -> int:
        """Return the number of partitions of a member."""
        return len(self.of[member_id])

    def first(self, candidates: Iterable[str]) -> str | None:
        """Return the candidate with the fewest partitions."""
        return min(candidates, key=self._place, default=None)

    def _take_out(self, member_id: str) -> None:
        del self._order[bisect_left(self._order, self._place(member_id))]

    def set_aside(self, member_id: str) -> set[TopicPartition]:
        """Remove a member, and return its partitions."""
        self._take_out(member_id)
        return self.of.pop(member_id)

    def give(self, partition: TopicPartition, member_id: str) -> None:
        """Assign a partition to a member, and take it from its owner."""
        owner = self.owner.get(partition)
        if owner is not None and partition in self.of.get(owner, ()):
            self._take_out(owner)
            self.of[owner].discard(partition)
            insort(self._order, self._place(owner))
        self._take_out(member_id)
        self.of[member_id].add(partition)
        insort(self._order, self._place(member_id))
        self.owner[partition] = member_id

    @property
    def imbalance(self) -> int:
        """The sum of the differences of all pairs of members."""
        total, seen = 0, 0
        for index, (size, _, _) in enumerate(self._order):
            total += index * size - seen
            seen += size
        return total


class GeneralShares:
    """An assignment while it is made."""

    def __init__(
        self,
        topics: Topics,
        members: Members,
        claims: Claims,
        ownership: Ownership,
        racks: Racks,
    ) -> None:
        self._topics = topics
        self._members = members
        self._racks = racks
        self._wanted = {
            member_id: [topic for topic in member.topics if topic in topics]
            for member_id, member in members.items()
        }
        self._candidates: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id, wanted in self._wanted.items():
            for topic in wanted:
                self._candidates[topic].append(member_id)
        self._previous = _previous_owners(claims, ownership)
        self._must_revoke = False
        kept: dict[str, set[TopicPartition]] = {}
        for member_id, owned in ownership.owned.items():
            some = {each for each in owned if self._may_keep(member_id, each)}
            self._must_revoke |= len(some) < len(owned)
            kept[member_id] = some
        self._loads = _Loads(kept)
        self._moves = Moves()

    def _may_keep(self, member_id: str, partition: TopicPartition) -> bool:
        is_wanted = partition.topic in self._members[member_id].topics
        return is_wanted and not self._racks.mismatch(member_id, partition)

    def make(self) -> Assignments:
        """Assign all partitions."""
        loads = self._loads
        names = sorted(self._topics, key=lambda name: (len(self._candidates[name]), as_java(name)))
        partitions = all_partitions(self._topics, names)
        kept = {each for some in loads.of.values() for each in some}
        left = [each for each in partitions if each not in kept]
        is_first_time = loads.most == 0
        self._assign_all(left)
        movable = [each for each in partitions if self._can_move(each)]
        aside = {
            member_id: loads.set_aside(member_id)
            for member_id in self._members
            if not self._takes_part(member_id)
        }
        before = {member_id: set(some) for member_id, some in loads.of.items()}
        imbalance = loads.imbalance
        if not self._must_revoke:
            self._balance([each for each in left if self._can_move(each)])
        has_moved = self._balance(movable)
        found = loads.of
        if has_moved and not is_first_time and loads.imbalance >= imbalance:
            found = before
        return {member_id: sorted({**found, **aside}[member_id]) for member_id in self._members}

    def _assign_all(self, partitions: list[TopicPartition]) -> None:
        """Assign partitions, first to members in their racks."""
        if self._racks.of_members:
            partitions = [p for p in partitions if not self._assign(p, in_rack=True)]
        for each in partitions:
            self._assign(each, in_rack=False)

    def _assign(self, partition: TopicPartition, *, in_rack: bool) -> bool:
        candidates = self._candidates[partition.topic]
        if in_rack:
            candidates = [m for m in candidates if not self._racks.mismatch(m, partition)]
        member_id = self._loads.first(candidates)
        if member_id is not None:
            self._loads.give(partition, member_id)
        return member_id is not None

    def _can_move(self, partition: TopicPartition) -> bool:
        return len(self._candidates[partition.topic]) >= 2

    def _takes_part(self, member_id: str) -> bool:
        """Whether a member could get more partitions, or could lose one."""
        owned = self._loads.of[member_id]
        return len(owned) < self._possible(member_id) or any(map(self._can_move, owned))

    def _possible(self, member_id: str) -> int:
        """Return the number of partitions of the topics that a member wants."""
        return sum(len(self._topics[topic]) for topic in self._wanted[member_id])

    def _balance(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions as long as it helps. Return whether one was moved."""
        has_moved = False
        is_moving = True
        while is_moving:
            is_moving = False
            for each in partitions:
                if self._is_balanced():
                    break
                if self._improve(each):
                    is_moving = has_moved = True
        return has_moved

    def _is_balanced(self) -> bool:
        """Whether no partition can be moved to a member that has two partitions less."""
        loads = self._loads
        if loads.least >= loads.most - 1:
            return True
        most: dict[str, int] = {}
        for some in loads.of.values():
            size = len(some)
            for each in some:
                most[each.topic] = max(most.get(each.topic, 0), size)
        return not any(
            len(some) + 1 < most.get(topic, 0)
            for member_id, some in loads.of.items()
            if len(some) != self._possible(member_id)
            for topic in self._wanted[member_id]
        )

    def _improve(self, partition: TopicPartition) -> bool:
        """Move a partition if this helps: preferably back, otherwise to whoever has the fewest."""
        loads = self._loads
        size = loads.size(loads.owner[partition])
        candidates = self._candidates[partition.topic]
        previous = self._previous.get(partition)
        if previous is not None and previous in candidates and size > loads.size(previous) + 1:
            self._move(partition, previous)
            return True
        found = loads.first(candidates)
        if found is None or size <= loads.size(found) + 1:
            return False
        self._move(partition, found)
        return True

    def _move(self, partition: TopicPartition, member_id: str) -> None:
        owner = self._loads.owner[partition]
        moved = self._moves.instead_of(partition, owner, member_id)
        self._moves.add(moved, self._loads.owner[moved], member_id)
        self._loads.give(moved, member_id)


def _previous_owners(claims: Claims, ownership: Ownership) -> dict[TopicPartition, str]:
    """Return who owned partitions in generations before the last; of two members the later one."""
    found: dict[TopicPartition, tuple[str, int]] = {}
    for member_id in ownership.owned:
        partitions, generation_id = claims[member_id]
        if generation_id >= ownership.generation_id_max:
            continue
        for each in partitions:
            if each not in found or generation_id > found[each][1]:
                found[each] = member_id, generation_id
    return {each: member_id for each, (member_id, _) in found.items()}
