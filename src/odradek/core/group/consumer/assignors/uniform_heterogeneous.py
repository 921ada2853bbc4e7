"""The uniform assignor for members that subscribe to different topics.

The algorithm is the same as in Kafka's `UniformHeterogeneousAssignmentBuilder`:

1. Members keep the partitions of the topics to which they subscribe.
2. Each free partition goes to the subscriber with the fewest partitions, topic by topic.
3. Partitions move from subscribers with many partitions to subscribers with few partitions, again
   topic by topic. This is repeated until no move improves the balance, at most `_ROUNDS_MAX` times.

The first topic is the topic with the most partitions per subscriber.
"""

from __future__ import annotations

import math
from struct import Struct

from odradek.core.group.consumer.assignors.group_spec import GroupSpec
from odradek.core.group.consumer.assignors.loads import Loads
from odradek.core.group.consumer.assignors.target_copy import TargetCopy, topic_order
from odradek.core.group.modern.assignment import Assignment
from odradek.model.java_order import roomy_capacity

_ROUNDS_MAX = 16
_NOBODY = -1
_UUID_LONGS = Struct(">qq")


def assign_evenly(group: GroupSpec) -> dict[str, Assignment]:
    """Distribute partitions over their subscribers."""
    return _Assignment(group).build()


class _Assignment:
    """The computation of one assignment. Members are numbered in the order of the group."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._sizes = [0] * len(group.members)
        """Number of partitions of each member."""
        self._subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {
            topic_id: [_NOBODY] * group.partition_counts[topic_id] for topic_id in self._subscribers
        }
        """Topic id -> the number of the member that gets each partition."""
        self._topic_ids = sorted(self._subscribers, key=self._rank)
        self._members = list(group.members.values())
        self._copies: dict[int, TargetCopy] = {}
        """Number of a member -> its changed target."""

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, ...]]:
        count = len(self._subscribers[topic_id])
        partition_count = self._group.partition_counts[topic_id]
        return (-partition_count / count, count, _UUID_LONGS.unpack(topic_id))

    def build(self) -> dict[str, Assignment]:
        """Run all three steps."""
        if not self._subscribers:
            return {}
        self._keep()
        for topic_id in self._topic_ids:
            self._assign_free(topic_id)
        self._balance([each for each in self._topic_ids if len(self._subscribers[each]) > 1])
        return self._targets()

    def _keep(self) -> None:
        """Let members keep their partitions of subscribed topics."""
        for number, member in enumerate(self._members):
            for topic_id in topic_order(member.target):
                if topic_id not in member.topic_ids:
                    self._copy(number).remove_topic(topic_id)
                    continue
                self._sizes[number] += len(member.target[topic_id])
                for partition in member.target[topic_id]:
                    self._owners[topic_id][partition] = number

    def _copy(self, number: int) -> TargetCopy:
        copy = self._copies.get(number)
        if copy is None:
            copy = self._copies[number] = TargetCopy(self._members[number].target)
        return copy

    def _assign_free(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        if _NOBODY not in owners:
            return
        loads = Loads(self._subscribers[topic_id], self._sizes)
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                self._give(topic_id, partition, loads.next_least())

    def _balance(self, topic_ids: list[bytes]) -> None:
        """Balance all topics repeatedly until a round moves nothing."""
        last_moved = None
        for _ in range(_ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of one topic. Return whether any partition was moved."""
        loads = Loads(self._subscribers[topic_id], self._sizes)
        if loads.imbalance <= 1:
            return False
        partitions_of: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            partitions_of.setdefault(owner, []).append(partition)
        has_moved = False
        while not loads.is_balanced():
            giver = loads.next_most()
            while giver is not None and not partitions_of.get(giver):
                loads.exclude_most()
                giver = loads.next_most()
            if giver is None:
                break
            partition = partitions_of[giver].pop()
            taker = loads.next_least()
            if loads.is_balanced():
                break
            self._give(topic_id, partition, taker)
            has_moved = True
        return has_moved

    def _give(self, topic_id: bytes, partition: int, number: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != _NOBODY:
            self._copy(owners[partition]).remove(topic_id, partition)
            self._sizes[owners[partition]] -= 1
        owners[partition] = number
        share = math.ceil(len(owners) / len(self._subscribers[topic_id]))
        self._copy(number).add(topic_id, partition, roomy_capacity(share))
        self._sizes[number] += 1

    def _targets(self) -> dict[str, Assignment]:
        return {
            member_id: self._copies[number].assignment()
            if number in self._copies
            else member.target
            for number, (member_id, member) in enumerate(self._group.members.items())
        }
