"""Client-side assignors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.assignors import ASSIGNORS, Wish, assign_range, assign_round_robin

NAMES = st.text("abc", min_size=1, max_size=3)
COUNTS = st.dictionaries(NAMES, st.integers(0, 9), max_size=5)
SUBSCRIPTIONS = st.dictionaries(NAMES, st.lists(NAMES, unique=True), min_size=1, max_size=5)


def assigned(assign, counts, subscriptions):
    """The assignment of members without racks and instance ids."""
    topics = {topic: [frozenset()] * count for topic, count in counts.items()}
    return assign(topics, {member: Wish(some) for member, some in subscriptions.items()})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(counts=COUNTS, subscriptions=SUBSCRIPTIONS)
def test_each_partition_goes_to_one_member_that_wants_it(name, counts, subscriptions):
    shares = assigned(ASSIGNORS[name], counts, subscriptions)
    assert set(shares) == set(subscriptions)
    given_out = [(member, each) for member, share in shares.items() for each in share]
    assert all(each.topic in subscriptions[member] for member, each in given_out)
    partitions = [tuple(each) for _, each in given_out]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    expected = {
        (topic, index) for topic, n in counts.items() if topic in wanted for index in range(n)
    }
    assert len(partitions) == len(set(partitions))
    assert set(partitions) == expected


@given(st.integers(0, 50), st.integers(1, 7))
def test_equal_wishes_get_equal_shares(partitions, members):
    subscriptions = {f"m{index}": ["t"] for index in range(members)}
    for assign in ASSIGNORS.values():
        shares = assigned(assign, {"t": partitions}, subscriptions)
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1


def shown(shares):
    return {member: [str(each) for each in share] for member, share in shares.items()}


def test_range_gives_runs():
    shares = assigned(assign_range, {"a": 3, "b": 3}, {"m1": ["a", "b"], "m2": ["a", "b"]})
    assert shown(shares) == {"m1": ["a-0", "a-1", "b-0", "b-1"], "m2": ["a-2", "b-2"]}


def test_round_robin_takes_turns():
    shares = assigned(assign_round_robin, {"a": 3, "b": 3}, {"m1": ["a", "b"], "m2": ["a", "b"]})
    assert shown(shares) == {"m1": ["a-0", "a-2", "b-1"], "m2": ["a-1", "b-0", "b-2"]}


def test_round_robin_passes_over_members_that_do_not_want_a_topic():
    shares = assigned(
        assign_round_robin,
        {"a": 1, "b": 2, "c": 3},
        {"m0": ["a"], "m1": ["a", "b"], "m2": ["a", "b", "c"]},
    )
    assert shown(shares) == {"m0": ["a-0"], "m1": ["b-0"], "m2": ["b-1", "c-0", "c-1", "c-2"]}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_static_members_come_first(assign):
    wishes = {"a": Wish(["t"]), "b": Wish(["t"], "instance")}
    assert shown(assign({"t": [frozenset()]}, wishes)) == {"a": [], "b": ["t-0"]}


def test_range_prefers_replicas_in_the_rack_of_a_member():
    wishes = {"m1": Wish(["t", "u"], rack="r1"), "m2": Wish(["t", "u"], rack="r2")}
    racks = [frozenset(["r2"]), frozenset(["r1"])]
    expected = {"m1": ["t-1", "u-1"], "m2": ["t-0", "u-0"]}
    assert shown(assign_range({"t": racks, "u": racks}, wishes)) == expected
