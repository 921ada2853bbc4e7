"""Server-side assignors."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.run_seed import seeds

from odradek.core.group.consumer.assignors import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    configured_assignors,
)
from odradek.model.java_order import java_hash_order


def topic_id(number: int) -> bytes:
    return number.to_bytes(16)


A, B, C = topic_id(1), topic_id(2), topic_id(3)


def group(counts, members, *, homogeneous=True):
    return GroupSpec(members, counts, homogeneous)


def member(*topics, target=None, instance_id=None):
    return MemberSpec(dict.fromkeys(topics).keys(), target or {}, instance_id)


def plain(assignment):
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member_id, topics in assignment.items()
        if topics
    }


def assign(name, spec):
    return plain(ASSIGNORS[name](spec))


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_gets_nothing(name):
    assert assign(name, group({}, {})) == {}


def test_ranges_of_topics_assign_the_same_partition_numbers():
    spec = group({A: 3, B: 3}, {"x": member(A, B), "y": member(A, B)})
    assert assign("range", spec) == {"x": {A: [0, 1], B: [0, 1]}, "y": {A: [2], B: [2]}}


def test_ranges_order_members_by_instance_id_first():
    spec = group({A: 3}, {"a": member(A), "z": member(A, instance_id="one")})
    assert assign("range", spec) == {"z": {A: [0, 1]}, "a": {A: [2]}}


def test_ranges_of_different_topics():
    members = {"x": member(A, B), "y": member(B, C), "z": member(C)}
    spec = group({A: 2, B: 2, C: 2}, members, homogeneous=False)
    expected = {"x": {A: [0, 1], B: [0]}, "y": {B: [1], C: [0]}, "z": {C: [1]}}
    assert assign("range", spec) == expected


def test_ranges_with_more_members_than_partitions():
    spec = group({A: 1}, {"x": member(A), "y": member(A)})
    assert assign("range", spec) == {"x": {A: [0]}}


def test_uniform_keeps_what_members_have():
    members = {
        "x": member(A, target={A: frozenset((0, 1, 2, 3))}),
        "y": member(A),
    }
    assert assign("uniform", group({A: 4}, members)) == {"x": {A: [0, 1]}, "y": {A: [2, 3]}}


def test_uniform_revokes_topics_that_are_no_longer_subscribed():
    members = {"x": member(A, target={A: frozenset((0,)), B: frozenset((0,))})}
    assert assign("uniform", group({A: 1}, members)) == {"x": {A: [0]}}


def test_uniform_of_different_topics_balances():
    members = {
        "x": member(A, B, target={A: frozenset((0, 1)), B: frozenset((0, 1))}),
        "y": member(B),
    }
    spec = group({A: 2, B: 2}, members, homogeneous=False)
    assert assign("uniform", spec) == {"x": {A: [0, 1]}, "y": {B: [0, 1]}}


def test_assignors_are_configured_by_name_or_class():
    package = "org.apache.kafka.coordinator.group.assignor."
    names = [package + "RangeAssignor", "uniform", "com.example.Own"]
    assert configured_assignors(names) == ["range", "uniform"]


# -- any group -----------------------------------------------------------------------------------


def random_groups(seed):
    """A group that grows and shrinks: each assignment is the target of the next."""
    random = Random(seed)
    name = random.choice(list(ASSIGNORS))
    homogeneous = random.random() < 0.5
    ids = [random.randbytes(16) for _ in range(random.randint(1, 25))]
    counts = {each: random.randint(1, 40) for each in ids}
    targets = {}
    members = {}
    for _ in range(6):
        for _ in range(random.randint(0, 5)):
            members[f"m-{random.randrange(10**6)}"] = random.choice((None, f"i{len(members)}"))
        for each in random.sample(sorted(members), min(len(members), random.randint(0, 3))):
            del members[each]
        wanted = random.sample(ids, random.randint(0, len(ids)))
        specs = {}
        for each in java_hash_order(sorted(members)):
            own = wanted if homogeneous else random.sample(ids, random.randint(0, len(ids)))
            target = targets.get(each, {})
            specs[each] = MemberSpec(frozenset(own), target, members[each])
        yield name, GroupSpec(specs, counts, homogeneous)
        if specs:
            targets = ASSIGNORS[name](GroupSpec(specs, counts, homogeneous))
        for each in random.sample(ids, random.randint(0, len(ids))):
            counts = {**counts, each: counts[each] + random.randint(0, 3)}


@pytest.mark.parametrize("seed", seeds(60))
def test_every_partition_has_one_owner_that_subscribes_to_its_topic(seed):
    for name, spec in random_groups(seed):
        wanted = {each for one in spec.members.values() for each in one.topic_ids}
        partitions = {(each, p) for each in wanted for p in range(spec.partition_counts[each])}
        given = [
            (each, p)
            for member_id, target in ASSIGNORS[name](spec).items()
            for each, owned in target.items()
            for p in owned
            if each in spec.members[member_id].topic_ids
        ]
        assert sorted(given) == sorted(partitions)
        if name == "uniform" and spec.is_homogeneous and wanted:
            result = ASSIGNORS[name](spec)
            sizes = [sum(map(len, result[each].values())) for each in spec.members]
            assert max(sizes) - min(sizes) <= 1
