"""Client-side assignors. `tests/oracle/test_java_assignors.py` compares them with Java's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.core.assignors import ASSIGNORS, Member
from odradek.model.topic_partition import TopicPartition

NAMES = st.text("abc", min_size=1, max_size=3)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 12))
COUNTS = st.dictionaries(NAMES, st.integers(0, 9), max_size=5)
RACKS = st.sampled_from(["", "r1", "r2"])
MEMBERS = st.dictionaries(
    NAMES,
    st.builds(
        Member,
        st.lists(NAMES, unique=True),
        rack=RACKS,
        owned=st.lists(PARTITIONS, max_size=8, unique=True),
        generation_id=st.integers(-1, 3),
        user_data=st.none() | st.binary(max_size=20),
    ),
    min_size=1,
    max_size=6,
)


def topics_of(counts):
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def assigned(name, counts, subscriptions):
    """The assignment of members without racks and instance ids."""
    members = {member: Member(some) for member, some in subscriptions.items()}
    return ASSIGNORS[name].assign(topics_of(counts), members)


def known(counts, members, draw):
    """The topics that exist and that a member wants, with racks."""
    wanted = {topic for member in members.values() for topic in member.topics}
    racks = st.frozensets(RACKS.filter(bool))
    return {
        topic: [draw(racks) for _ in range(count)]
        for topic, count in counts.items()
        if topic in wanted and count
    }


def check(topics, members, shares, *, is_complete):
    """Each partition goes to at most one member, which wants its topic."""
    assert set(shares) == set(members)
    given_out = [(member, each) for member, share in shares.items() for each in share]
    assert all(each.topic in members[member].topics for member, each in given_out)
    partitions = [tuple(each) for _, each in given_out]
    assert len(partitions) == len(set(partitions))
    expected = {(topic, index) for topic, some in topics.items() for index in range(len(some))}
    assert set(partitions) == expected if is_complete else set(partitions) <= expected


@pytest.mark.parametrize("name", ASSIGNORS)
@given(counts=COUNTS, members=MEMBERS, data=st.data())
def test_each_partition_goes_to_one_member_that_wants_it(name, counts, members, data):
    topics = known(counts, members, data.draw)
    assignor = ASSIGNORS[name]
    members = {
        member_id: replace(each, user_data=assignor.user_data(each.owned, each.generation_id))
        if data.draw(st.booleans())
        else each
        for member_id, each in members.items()
    }
    shares = assignor.assign(topics, members)
    check(topics, members, shares, is_complete=not assignor.is_cooperative)


@given(counts=COUNTS, members=MEMBERS)
def test_a_cooperative_group_settles(counts, members):
    """What is left out is assigned after it has been revoked; then nothing moves any more.

    Racks are left out: with them two members may exchange partitions for ever, also in Java.
    """
    wanted = {topic for member in members.values() for topic in member.topics}
    topics = topics_of(
        {topic: count for topic, count in counts.items() if topic in wanted and count}
    )
    assign = ASSIGNORS["cooperative-sticky"].assign
    shares = assign(topics, members)
    for generation_id in (10, 11, 12):
        members = {
            member_id: replace(each, owned=shares[member_id], generation_id=generation_id)
            for member_id, each in members.items()
        }
        before, shares = shares, assign(topics, members)
    check(topics, members, shares, is_complete=True)
    assert {m: set(some) for m, some in shares.items()} == {m: set(s) for m, s in before.items()}


@given(st.integers(0, 50), st.integers(1, 7))
def test_equal_wishes_get_equal_shares(partitions, members):
    subscriptions = {f"m{index}": ["t"] for index in range(members)}
    for name in ASSIGNORS:
        shares = assigned(name, {"t": partitions}, subscriptions)
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1


def shown(shares):
    return {member: [str(each) for each in share] for member, share in shares.items()}


def test_range_gives_runs():
    shares = assigned("range", {"a": 3, "b": 3}, {"m1": ["a", "b"], "m2": ["a", "b"]})
    assert shown(shares) == {"m1": ["a-0", "a-1", "b-0", "b-1"], "m2": ["a-2", "b-2"]}


def test_round_robin_takes_turns():
    shares = assigned("roundrobin", {"a": 3, "b": 3}, {"m1": ["a", "b"], "m2": ["a", "b"]})
    assert shown(shares) == {"m1": ["a-0", "a-2", "b-1"], "m2": ["a-1", "b-0", "b-2"]}


def test_round_robin_passes_over_members_that_do_not_want_a_topic():
    wishes = {"m0": ["a"], "m1": ["a", "b"], "m2": ["a", "b", "c"]}
    shares = assigned("roundrobin", {"a": 1, "b": 2, "c": 3}, wishes)
    assert shown(shares) == {"m0": ["a-0"], "m1": ["b-0"], "m2": ["b-1", "c-0", "c-1", "c-2"]}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first(name):
    members = {"a": Member(["t"]), "b": Member(["t"], "instance")}
    assert shown(ASSIGNORS[name].assign({"t": [frozenset()]}, members)) == {"a": [], "b": ["t-0"]}


def test_range_prefers_replicas_in_the_rack_of_a_member():
    members = {"m1": Member(["t", "u"], rack="r1"), "m2": Member(["t", "u"], rack="r2")}
    racks = [frozenset(["r2"]), frozenset(["r1"])]
    expected = {"m1": ["t-1", "u-1"], "m2": ["t-0", "u-0"]}
    assert shown(ASSIGNORS["range"].assign({"t": racks, "u": racks}, members)) == expected


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_new_member_takes_no_more_than_its_share(name):
    assignor = ASSIGNORS[name]
    owned = {
        f"m{number}": [TopicPartition("t", 2 * number + i) for i in (0, 1)] for number in (0, 1)
    }
    members = {
        member_id: Member(["t"], None, "", some, 5, assignor.user_data(some, 5))
        for member_id, some in owned.items()
    }
    members["m2"] = Member(["t"])
    shares = assignor.assign({"t": [frozenset()] * 4}, members)
    kept = [set(shares[member_id]) & set(some) for member_id, some in owned.items()]
    assert sorted(map(len, kept)) == [1, 2]
    assert len(shares["m2"]) == (1 if name == "sticky" else 0)


def test_a_claim_in_an_older_generation_is_not_valid():
    assignor = ASSIGNORS["cooperative-sticky"]
    owned = [TopicPartition("t", 0), TopicPartition("t", 1)]
    members = {"old": Member(["t"], owned=owned, generation_id=4)}
    members["new"] = Member(["t"], owned=owned[:1], generation_id=5)
    shares = assignor.assign({"t": [frozenset()] * 2}, members)
    assert shown(shares) == {"old": ["t-1"], "new": ["t-0"]}
