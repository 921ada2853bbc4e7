"""Plans of moves: which replicas go where, to empty a broker or to balance brokers.

A plan has the new replicas of each partition that changes, the preferred leader first. A moved
replica takes the place of the old one in the list, so preferred leaders move too. If brokers have
racks, a replica moves to a rack with the fewest replicas of its partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.admin.cluster import BrokerInfo
from odradek.client.admin.reassignments import Reassignment
from odradek.client.metadata import Topic
from odradek.model.topic_partition import TopicPartition

Replicas = tuple[int, ...]
Partitions = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True)
class Plan:
    """The new replicas by partition, and the partitions for which no broker is left."""

    moves: dict[TopicPartition, Replicas] = field(default_factory=dict)
    impossible: list[TopicPartition] = field(default_factory=list)


def final_replicas(
    topics: Iterable[Topic], moving: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, Replicas]:
    """Return the replicas of each partition after the moves that are in progress."""
    found = {}
    for topic in topics:
        for index, partition in topic.partitions.items():
            key = TopicPartition(topic.name, index)
            leaving = moving[key].removing if key in moving else ()
            found[key] = tuple(each for each in partition.replicas if each not in leaving)
    return found


class _Load:
    """The numbers of replicas and preferred leaders of each broker, while a plan is made."""

    def __init__(self, brokers: Iterable[BrokerInfo], partitions: Partitions) -> None:
        self.racks = {each.id: each.rack for each in brokers}
        self.replicas: Counter[int] = Counter(dict.fromkeys(self.racks, 0))
        self.leaders: Counter[int] = Counter(dict.fromkeys(self.racks, 0))
        for replicas in partitions.values():
            self.replicas.update(replicas)
            self.leaders.update(replicas[:1])

    def note(self, before: Replicas, after: Replicas) -> None:
        """Note that a partition gets other replicas."""
        self.replicas.subtract(before)
        self.replicas.update(after)
        self.leaders.subtract(before[:1])
        self.leaders.update(after[:1])

    def same_rack(self, broker_id: int, others: Sequence[int]) -> int:
        """Return how many of the other replicas are on the rack of a broker."""
        rack = self.racks.get(broker_id)
        return 0 if rack is None else sum(self.racks.get(each) == rack for each in others)

    def best(self, replicas: Replicas, place: int) -> int | None:
        """Return the best broker for the replica at this place; None if there is none."""
        others = replicas[:place] + replicas[place + 1 :]
        free = [each for each in self.racks if each not in replicas]
        return min(
            free,
            key=lambda each: (
                self.same_rack(each, others),
                self.leaders[each] if place == 0 else 0,
                self.replicas[each],
                each,
            ),
            default=None,
        )


def plan_drain(broker_id: int, brokers: Iterable[BrokerInfo], partitions: Partitions) -> Plan:
    """Return the plan that leaves no replica on a broker. `brokers` are those that may get some."""
    load = _Load((each for each in brokers if each.id != broker_id), partitions)
    plan = Plan()
    for key, before in partitions.items():
        if broker_id not in before:
            continue
        place = before.index(broker_id)
        target = load.best(before, place)
        if target is None:
            plan.impossible.append(key)
            continue
        after = (*before[:place], target, *before[place + 1 :])
        load.note(before, after)
        plan.moves[key] = after
    return plan


def plan_balance(brokers: Iterable[BrokerInfo], partitions: Partitions) -> Plan:
    """Return the plan after which brokers have equally many replicas and preferred leaders.

    Racks may prevent this: no move brings two replicas of a partition to the same rack, unless they
    are on the same rack already.
    """
    load = _Load(brokers, partitions)
    now = dict(partitions)
    while _move_one_replica(load, now) or _move_one_leader(load, now):
        pass
    return Plan({key: after for key, after in now.items() if after != partitions[key]})


def _pairs(counts: Counter[int], usable: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Yield pairs of brokers whose counts differ by two or more, the largest difference first."""
    order = sorted(usable, key=lambda each: (counts[each], each))
    pairs = [(most, least) for most in order for least in order if counts[most] - counts[least] > 1]
    return sorted(pairs, key=lambda pair: counts[pair[1]] - counts[pair[0]])


def _move_one_replica(load: _Load, now: dict[TopicPartition, Replicas]) -> bool:
    for most, least in _pairs(load.replicas, load.racks):
        wants_leader = load.leaders[most] > load.leaders[least]
        best: TopicPartition | None = None
        for key, replicas in now.items():
            if most not in replicas or least in replicas:
                continue
            others = [each for each in replicas if each != most]
            if load.same_rack(least, others) > load.same_rack(most, others):
                continue
            best = key
            if (replicas[0] == most) is wants_leader:
                break
        if best is not None:
            before = now[best]
            now[best] = tuple(least if each == most else each for each in before)
            load.note(before, now[best])
            return True
    return False


def _move_one_leader(load: _Load, now: dict[TopicPartition, Replicas]) -> bool:
    for most, least in _pairs(load.leaders, load.racks):
        for key, replicas in now.items():
            if replicas[0] == most and least in replicas:
                now[key] = (least, *(each for each in replicas if each != least))
                load.note(replicas, now[key])
                return True
    return False
