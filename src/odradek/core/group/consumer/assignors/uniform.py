"""The uniform assignor (Kafka's `UniformAssignor`).

If all members subscribe to the same topics, the numbers of partitions of two members differ by at
most one. Each member keeps its partitions up to its quota. Some members must have one partition
more than others. Members that already have the additional partition keep it. If there are more
additional partitions, the last members get them. Free partitions are assigned, in order, to the
members below their quota.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from odradek.core.group.consumer.assignors.group_spec import GroupSpec, MemberSpec
from odradek.core.group.consumer.assignors.target_copy import (
    TargetCopy,
    partition_order,
    topic_order,
)
from odradek.core.group.consumer.assignors.uniform_heterogeneous import assign_evenly
from odradek.core.group.modern.assignment import Assignment
from odradek.model.java_order import copied_capacity, hash_order, uuid_hash


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Distribute the partitions over all members."""
    if not group.members:
        return {}
    if group.is_homogeneous:
        return _assign_homogeneous(group)
    return assign_evenly(group)


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    first = next(iter(group.members.values()))
    if not first.topic_ids:
        return {}
    free = _free_partitions(group, first)
    total = sum(group.partition_counts[each] for each in first.topic_ids)
    quota, extra = divmod(total, len(group.members))
    copies: dict[str, TargetCopy] = {}
    """Copies of the targets that change."""
    wanting: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(group.members.items()):
        has_extra = extra > 0
        copy, surplus, room = _keep(member.target, first.topic_ids, quota + has_extra)
        if copy is not None:
            copies[member_id] = copy
        free.extend(surplus)
        if room > 0 and has_extra and len(group.members) - index > extra:
            # The member does not have the additional partition yet, and there are enough later
            # members for all additional partitions.
            room -= 1
            has_extra = False
        if room > 0:
            wanting.append((member_id, room))
        extra -= has_extra
    _hand_out(group, free, wanting, copies)
    return {
        member_id: copies[member_id].assignment() if member_id in copies else member.target
        for member_id, member in group.members.items()
    }


def _free_partitions(group: GroupSpec, first: MemberSpec) -> list[tuple[bytes, int]]:
    assigned: dict[bytes, set[int]] = {}
    for member in group.members.values():
        for topic_id, partitions in member.target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    # The capacity of Kafka's set depends on all names, including topics that do not exist.
    count = max(first.topic_name_count, len(first.topic_ids))
    return [
        (topic_id, partition)
        for topic_id in hash_order(first.topic_ids, uuid_hash, copied_capacity(count))
        for partition in range(group.partition_counts[topic_id])
        if partition not in assigned.get(topic_id, ())
    ]


def _keep(
    target: Assignment, topic_ids: AbstractSet[bytes], room: int
) -> tuple[TargetCopy | None, list[tuple[bytes, int]], int]:
    """Let a member keep its partitions up to its quota `room`.

    Return three values: a copy of the target without the revoked partitions (None if no partition
    is revoked), the revoked partitions of subscribed topics, and the remaining quota.
    """
    copy: TargetCopy | None = None
    surplus: list[tuple[bytes, int]] = []
    for topic_id in topic_order(target):
        partitions = target[topic_id]
        if topic_id not in topic_ids:
            copy = copy or TargetCopy(target)
            copy.remove_topic(topic_id)
        elif len(partitions) <= room:
            room -= len(partitions)
        else:
            copy = copy or TargetCopy(target)
            for partition in partition_order(partitions)[room:]:
                copy.remove(topic_id, partition)
                surplus.append((topic_id, partition))
            room = 0
    return copy, surplus, room


def _hand_out(
    group: GroupSpec,
    free: list[tuple[bytes, int]],
    wanting: list[tuple[str, int]],
    copies: dict[str, TargetCopy],
) -> None:
    """Assign the free partitions. Their number is the sum of the remaining quotas in `wanting`."""
    start = 0
    for member_id, room in wanting:
        copy = copies.get(member_id)
        if copy is None:
            copy = copies[member_id] = TargetCopy(group.members[member_id].target)
        for topic_id, partition in free[start : start + room]:
            copy.add(topic_id, partition)
        start += room
    assert start >= len(free), "partitions were left over"
