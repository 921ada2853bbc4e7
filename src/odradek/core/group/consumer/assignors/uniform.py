"""The uniform assignor (Kafka's `UniformAssignor`): all members get as many partitions, or one more.

Members keep what they have up to their quota. Some members have to take one partition more than
others: those that have it already, or else the last ones. What is then free goes to those who
have too little, in order.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.group.consumer.assignors.group_spec import GroupSpec
from odradek.core.group.consumer.assignors.uniform_heterogeneous import assign_evenly
from odradek.core.group.consumer.member import Assignment
from odradek.core.group.java_order import (
    copied_capacity,
    grown_capacity,
    hash_order,
    integer_hash,
    uuid_hash,
)

_Owned = dict[bytes, set[int]]


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Spread all partitions over all members."""
    if not group.members:
        return {}
    if group.is_homogeneous:
        return _assign_homogeneous(group)
    return assign_evenly(group)


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    topic_ids = next(iter(group.members.values())).topic_ids
    if not topic_ids:
        return {}
    free = _free_partitions(group, topic_ids)
    total = sum(group.partition_counts[each] for each in topic_ids)
    quota, extra = divmod(total, len(group.members))
    targets: dict[str, Assignment] = {}
    wanting: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(group.members.items()):
        has_extra = extra > 0
        kept, surplus, room = _keep(member.target, topic_ids, quota + has_extra)
        free.extend(surplus)
        if room > 0 and has_extra and len(group.members) - index > extra:
            # It does not need the extra partition, and enough others are left to take it.
            room -= 1
            has_extra = False
        if room > 0:
            wanting.append((member_id, room))
        extra -= has_extra
        targets[member_id] = kept
    _hand_out(free, wanting, targets)
    return targets


def _free_partitions(group: GroupSpec, topic_ids: frozenset[bytes]) -> list[tuple[bytes, int]]:
    assigned: dict[bytes, set[int]] = {}
    for member in group.members.values():
        for topic_id, partitions in member.target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    ordered = hash_order(sorted(topic_ids), uuid_hash, copied_capacity(len(topic_ids)))
    return [
        (topic_id, partition)
        for topic_id in ordered
        for partition in range(group.partition_counts[topic_id])
        if partition not in assigned.get(topic_id, ())
    ]


def _keep(
    target: Assignment, topic_ids: frozenset[bytes], room: int
) -> tuple[Assignment, list[tuple[bytes, int]], int]:
    """What a member keeps, what it gives up though it is subscribed, and the room that is left."""
    kept: dict[bytes, frozenset[int]] = {}
    surplus: list[tuple[bytes, int]] = []
    for topic_id in hash_order(target, uuid_hash, grown_capacity(len(target))):
        if topic_id not in topic_ids:
            continue
        partitions = target[topic_id]
        if len(partitions) > room:
            ordered = hash_order(sorted(partitions), integer_hash, copied_capacity(len(partitions)))
            surplus.extend((topic_id, partition) for partition in ordered[room:])
            partitions = frozenset(ordered[:room])
        room -= len(partitions)
        if partitions:
            kept[topic_id] = partitions
    return kept, surplus, room


def _hand_out(
    free: list[tuple[bytes, int]], wanting: list[tuple[str, int]], targets: dict[str, Assignment]
) -> None:
    """Quotas add up to what there is, so that nothing is left."""
    start = 0
    for member_id, room in wanting:
        targets[member_id] = _with(targets[member_id], free[start : start + room])
        start += room
    assert start >= len(free), "partitions were left over"


def _with(
    target: Assignment, partitions: list[tuple[bytes, int]]
) -> Mapping[bytes, frozenset[int]]:
    added: _Owned = {}
    for topic_id, partition in partitions:
        added.setdefault(topic_id, set()).add(partition)
    return {
        **target,
        **{topic_id: target.get(topic_id, frozenset()) | more for topic_id, more in added.items()},
    }
