"""Plans of moves, for random clusters."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import seeds

from odradek.client.address import Address
from odradek.client.admin.cluster import BrokerInfo
from odradek.client.admin.reassignments import Reassignment
from odradek.client.metadata import Partition, Topic
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_plans import final_replicas, plan_balance, plan_drain

COUNT = 40


def cluster(seed, racks):
    """Brokers, and partitions with random replicas."""
    draw = random.Random(seed)
    count = draw.randint(2, 7)
    brokers = [
        BrokerInfo(each, Address("h", each), f"r{each % racks}" if racks else None, False)
        for each in range(1, count + 1)
    ]
    factor = draw.randint(1, count - 1)
    partitions = {
        TopicPartition(f"t{index % 3}", index): tuple(draw.sample(range(1, count + 1), factor))
        for index in range(draw.randint(1, 40))
    }
    return brokers, partitions


def spread(brokers, replicas):
    racks = {each.id: each.rack for each in brokers}
    return len({racks[each] for each in replicas})


@pytest.mark.parametrize("racks", [0, 3])
def test_a_drained_broker_has_no_replica(racks):
    for seed in seeds(COUNT):
        check_drain(seed, racks)


def check_drain(seed, racks):
    brokers, partitions = cluster(seed, racks)
    plan = plan_drain(1, brokers, partitions)
    assert plan.impossible == []
    assert set(plan.moves) == {key for key, each in partitions.items() if 1 in each}
    for key, after in plan.moves.items():
        before = partitions[key]
        assert 1 not in after
        assert len(set(after)) == len(before)
        changed = [old for old, new in zip(before, after, strict=True) if old != new]
        assert changed == [1]
        if racks:
            kept = [each for each in before if each != 1]
            free = [each.id for each in brokers if each.id != 1 and each.id not in before]
            best = max(spread(brokers, [*kept, each]) for each in free)
            assert spread(brokers, after) == best


@pytest.mark.parametrize("racks", [0, 3])
def test_a_balanced_cluster(racks):
    for seed in seeds(COUNT):
        check_balance(seed, racks)


def check_balance(seed, racks):
    brokers, partitions = cluster(seed, racks)
    plan = plan_balance(brokers, partitions)
    after = {**partitions, **plan.moves}
    for key, replicas in after.items():
        assert len(set(replicas)) == len(partitions[key])
        assert spread(brokers, replicas) >= spread(brokers, partitions[key])
    if not racks:
        counts = [sum(each.id in replicas for replicas in after.values()) for each in brokers]
        assert max(counts) - min(counts) <= 1
    assert plan_balance(brokers, after).moves == {}


def test_no_broker_is_left():
    brokers, partitions = (
        [BrokerInfo(1, Address("h", 1), None, False)],
        {TopicPartition("t", 0): (1,)},
    )
    assert plan_drain(1, brokers, partitions).impossible == [TopicPartition("t", 0)]


def test_moves_in_progress_count_as_done():
    topic = Topic("t", b"", False, {0: Partition(0, 1, 0, (1, 2, 3), (1, 2), ())})
    moving = {TopicPartition("t", 0): Reassignment((1, 2, 3), (3,), (1,))}
    assert final_replicas([topic], moving) == {TopicPartition("t", 0): (2, 3)}
