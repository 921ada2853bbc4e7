"""The simple assignor (Kafka's `SimpleAssignor`).

Each partition is assigned to about the same number of members, and each member gets about the same
number of partitions. If there are more members than partitions, partitions are shared. Members keep
their partitions as far as possible. Only partitions whose share state is initialized are assigned.

The results are exactly the same as in Apache Kafka. They depend on the order of Java's hash tables
(see `java_order`). If all members subscribe to the same topics, all partitions are distributed
together (`_Homogeneous`), otherwise topic by topic (`_OneTopic`). If the group has priorities
(`odradek.share.priority`, only in Odradek), they are always distributed topic by topic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import ceil
from typing import Final, Generic, NamedTuple, TypeVar

from odradek.core.group.modern.assignment import Assignment, ordered_set
from odradek.model.java_order import (
    DEFAULT_CAPACITY,
    JavaHashTable,
    copied_capacity,
    grown_capacity,
    hash_order,
    integer_hash,
    roomy_capacity,
    uuid_hash,
)

NAME: Final = "simple"

KeyT = TypeVar("KeyT", bound=Hashable)
ElementT = TypeVar("ElementT", bound=Hashable)

Place = tuple[bytes, int]
"""A topic id and a partition."""


class MemberSpec(NamedTuple):
    """A member, with its topics and its current target assignment."""

    topic_ids: AbstractSet[bytes]
    """The ids of the subscribed topics that exist, in the order of Kafka's set."""
    target: Assignment


class GroupSpec(NamedTuple):
    """A group. The order of the members decides if candidates are equal."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Number of partitions of each subscribed topic."""
    assignable: Mapping[bytes, AbstractSet[int]]
    """The partitions that may be assigned, by topic id."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics, and the group has no priorities."""


def assign(group: GroupSpec) -> dict[str, Assignment]:
    """Return target assignments by member id. Members without partitions may be missing."""
    if not group.members:
        return {}
    changes = _Changes(group)
    if group.is_homogeneous:
        topic_ids = next(iter(group.members.values())).topic_ids
        if not topic_ids:
            return {}
        _Homogeneous(group, topic_ids, changes).assign()
    else:
        topic_ids = dict.fromkeys(
            each for member in group.members.values() for each in member.topic_ids
        ).keys()
        if not topic_ids:
            return {}
        for topic_id in hash_order(topic_ids, uuid_hash, grown_capacity(len(topic_ids))):
            _OneTopic(group, topic_id, changes).assign()
    return changes.targets()


def _assignable(group: GroupSpec, topic_id: bytes) -> list[int]:
    allowed = group.assignable.get(topic_id, frozenset())
    return [each for each in range(group.partition_counts[topic_id]) if each in allowed]


def _sharing(member_count: int, partition_count: int) -> int:
    """Return the number of members of each partition."""
    if partition_count == 0:
        return 0
    return (member_count + partition_count - 1) // partition_count


def _quota(share: float, position: int) -> int:
    """Return the number of partitions of a member; `share` is the average."""
    return ceil(share * (position + 1)) - ceil(share * position)


def _roomy(count: int) -> int:
    """Return the initial capacity of a table for `count` keys (Kafka's `newHashMap`)."""
    return roomy_capacity(count + 1)


class _Changes:
    """The targets of a group that change. Members are numbered."""

    def __init__(self, group: GroupSpec) -> None:
        self._member_ids = list(group.members)
        self.before = [each.target for each in group.members.values()]
        self._copies: dict[int, _Copy] = {}

    def copy(self, member: int) -> _Copy:
        """Return the copy of a member's target. Create it if necessary."""
        copy = self._copies.get(member)
        if copy is None:
            copy = self._copies[member] = _Copy(self.before[member])
        return copy

    def targets(self) -> dict[str, Assignment]:
        """Return the targets of all members."""
        return {
            member_id: self._copies[number].assignment()
            if number in self._copies
            else self.before[number]
            for number, member_id in enumerate(self._member_ids)
        }


class _Copy:
    """A modifiable copy of a target (Kafka's `AssignorHelpers.deepCopyAssignment`).

    A topic remains when its last partition is removed.
    """

    def __init__(self, target: Assignment) -> None:
        self._topic_ids: JavaHashTable[bytes] = JavaHashTable(uuid_hash, len(target))
        self._partitions: dict[bytes, JavaHashTable[int]] = {}
        for topic_id in _topic_order(target):
            self._topic_ids.put(topic_id)
            partitions = _partition_order(target, topic_id)
            copied = JavaHashTable(integer_hash, copied_capacity(len(partitions)))
            for partition in partitions:
                copied.put(partition)
            self._partitions[topic_id] = copied

    def add(self, topic_id: bytes, partition: int) -> None:
        """Add a partition."""
        self._topic_ids.compute(topic_id)
        if topic_id not in self._partitions:
            self._partitions[topic_id] = JavaHashTable(integer_hash)
        self._partitions[topic_id].put(partition)

    def remove(self, topic_id: bytes, partition: int) -> bool:
        """Remove a partition; return whether the target had it."""
        partitions = self._partitions.get(topic_id)
        if partitions is None or partition not in partitions:
            return False
        partitions.remove(partition)
        return True

    def remove_topic(self, topic_id: bytes) -> None:
        """Remove all partitions of a topic."""
        self._topic_ids.remove(topic_id)
        self._partitions.pop(topic_id, None)

    def assignment(self) -> Assignment:
        """Return the changed target."""
        return {topic_id: ordered_set(self._partitions[topic_id]) for topic_id in self._topic_ids}


def _topic_order(target: Assignment) -> list[bytes]:
    return hash_order(target, uuid_hash, grown_capacity(len(target)))


def _partition_order(target: Assignment, topic_id: bytes) -> list[int]:
    partitions = list(target[topic_id])
    return hash_order(partitions, integer_hash, copied_capacity(len(partitions)))


def _place_hash(place: Place) -> int:
    """Return the hash of Kafka's record `TopicIdPartition`."""
    return 31 * uuid_hash(place[0]) + place[1]


class _SetTable(Generic[KeyT, ElementT]):
    """A Java `HashMap` whose values are `HashSet`s."""

    def __init__(
        self, hash_of: Callable[[KeyT], int], count: int, element_hash_of: Callable[[ElementT], int]
    ) -> None:
        """`count` is the expected number of keys."""
        self._keys: JavaHashTable[KeyT] = JavaHashTable(hash_of, _roomy(count))
        self._sets: dict[KeyT, JavaHashTable[ElementT]] = {}
        self._element_hash_of = element_hash_of

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._keys)

    def of(self, key: KeyT, capacity: int = DEFAULT_CAPACITY) -> JavaHashTable[ElementT]:
        """Return the set of a key. Create it if necessary, with this initial capacity."""
        self._keys.compute(key)
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = JavaHashTable(self._element_hash_of, capacity)
        return found

    def get(self, key: KeyT) -> JavaHashTable[ElementT]:
        """Return the set of a key that exists."""
        return self._sets[key]

    def size(self, key: KeyT) -> int:
        """Return the size of a key's set; 0 if there is none."""
        found = self._sets.get(key)
        return 0 if found is None else len(found)


class _Homogeneous:
    """Distributes all partitions (Kafka's `SimpleHomogeneousAssignmentBuilder`)."""

    def __init__(self, group: GroupSpec, topic_ids: AbstractSet[bytes], changes: _Changes) -> None:
        self._changes = changes
        self._topic_ids = topic_ids
        self._places = [
            (topic_id, partition)
            for topic_id in topic_ids
            for partition in _assignable(group, topic_id)
        ]
        count = len(group.members)
        self._sharing = _sharing(count, len(self._places))
        share = self._sharing * len(self._places) / count
        self._quotas = [_quota(share, number) for number in range(count)]
        self._members_of: _SetTable[Place, int] = _SetTable(
            _place_hash, len(self._places), integer_hash
        )
        self._places_of: _SetTable[int, Place] = _SetTable(integer_hash, count, _place_hash)
        self._unfilled: set[int] = set()

    def assign(self) -> None:
        """Change the targets of the members."""
        overfilled = [each for each in range(len(self._quotas)) if self._keep(each)]
        for member in overfilled:
            self._revoke_surplus(member)
        self._revoke_oversharing()
        for place in self._places:
            self._members_of.of(place)
        _hand_out(
            self._members_of,
            self._places_of,
            sorted(self._unfilled),
            self._sharing,
            self._quotas,
            lambda member, place: self._changes.copy(member).add(*place),
        )

    def _keep(self, member: int) -> bool:
        """Let a member keep the partitions of subscribed topics.

        Return whether the member has more partitions than its quota.
        """
        target, quota, count = self._changes.before[member], self._quotas[member], 0
        for topic_id in _topic_order(target):
            if topic_id not in self._topic_ids:
                self._changes.copy(member).remove_topic(topic_id)
                continue
            for partition in _partition_order(target, topic_id):
                count += 1
                self._members_of.of((topic_id, partition)).put(member)
                self._places_of.of(member).put((topic_id, partition))
                if count >= quota:
                    self._changes.copy(member)
        if count < quota:
            self._unfilled.add(member)
        return count > quota

    def _revoke_surplus(self, member: int) -> None:
        places = self._places_of.get(member)
        for place in list(places)[: len(places) - self._quotas[member]]:
            self._changes.copy(member).remove(*place)
            self._members_of.get(place).remove(member)
            places.remove(place)

    def _revoke_oversharing(self) -> None:
        for place in self._members_of:
            members = self._members_of.get(place)
            surplus = len(members) - self._sharing
            for member in list(members):
                if surplus <= 0:
                    break
                if self._changes.copy(member).remove(*place):
                    surplus -= 1
                    members.remove(member)
                    self._places_of.get(member).remove(place)
                    self._unfilled.add(member)


class _OneTopic:
    """Distributes the partitions of a topic (Kafka's `SimpleHeterogeneousAssignmentBuilder`)."""

    def __init__(self, group: GroupSpec, topic_id: bytes, changes: _Changes) -> None:
        self._changes = changes
        self._topic_id = topic_id
        self._partitions = _assignable(group, topic_id)
        self._subscribers = [
            number
            for number, member in enumerate(group.members.values())
            if topic_id in member.topic_ids
        ]
        count = len(self._subscribers)
        self._sharing = _sharing(count, len(self._partitions))
        share = self._sharing * len(self._partitions) / count
        self._quotas = [0] * len(group.members)
        for position, member in enumerate(self._subscribers):
            self._quotas[member] = _quota(share, position)
        self._members_of: _SetTable[int, int] = _SetTable(
            integer_hash, len(self._partitions), integer_hash
        )
        self._partitions_of: _SetTable[int, int] = _SetTable(integer_hash, count, integer_hash)

    def assign(self) -> None:
        """Change the targets of the members."""
        for member, target in enumerate(self._changes.before):
            if self._topic_id in target:
                for partition in _partition_order(target, self._topic_id):
                    self._members_of.of(partition).put(member)
                    self._partitions_of.of(member).put(partition)
        for member in self._partitions_of:
            self._revoke_surplus(member)
        self._revoke_oversharing()
        for partition in self._partitions:
            self._members_of.of(partition, _roomy(len(self._subscribers)))
        unfilled = [
            each
            for each in self._subscribers
            if self._partitions_of.size(each) < self._quotas[each]
        ]
        _hand_out(
            self._members_of,
            self._partitions_of,
            sorted(unfilled),
            self._sharing,
            self._quotas,
            lambda member, partition: self._changes.copy(member).add(self._topic_id, partition),
        )

    def _revoke_surplus(self, member: int) -> None:
        partitions = self._partitions_of.get(member)
        surplus = len(partitions) - self._quotas[member]
        for partition in list(partitions)[: max(surplus, 0)]:
            self._members_of.get(partition).remove(member)
            partitions.remove(partition)
            self._changes.copy(member).remove(self._topic_id, partition)

    def _revoke_oversharing(self) -> None:
        for partition in self._members_of:
            members = self._members_of.get(partition)
            surplus = len(members) - self._sharing
            for member in list(members):
                if surplus <= 0:
                    break
                if self._changes.copy(member).remove(self._topic_id, partition):
                    surplus -= 1
                    members.remove(member)
                    self._partitions_of.get(member).remove(partition)


def _hand_out(
    members_of: _SetTable[ElementT, int],
    held_by: _SetTable[int, ElementT],
    unfilled: list[int],
    sharing: int,
    quotas: Sequence[int],
    add: Callable[[int, ElementT], None],
) -> None:
    """Give each partition to `sharing` members. The members take turns until they are filled.

    As in Apache Kafka, the set of the partition's members does not change. So if there are too few
    members that are not filled, a partition is given to a member twice, which has no effect.
    """
    turn = 0
    has_given = False
    for place in members_of:
        if not unfilled:
            break
        members = members_of.get(place)
        missing = sharing - len(members)
        while missing > 0:
            if turn >= len(unfilled):
                if not has_given or not unfilled:
                    break
                turn, has_given = 0, False
            member = unfilled[turn]
            turn += 1
            if member in members:
                continue
            add(member, place)
            held = held_by.of(member)
            held.put(place)
            missing -= 1
            has_given = True
            if len(held) >= quotas[member]:
                turn -= 1
                del unfilled[turn]
