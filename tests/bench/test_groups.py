from __future__ import annotations

from bench.groups.connection import spread
from bench.groups.trial import one_group_each

from odradek.core.coordinator.placement import partition_for


def test_every_partition_goes_to_one_member_and_nobody_gets_two_more_than_another():
    topics = {"a": 7, "b": 3}
    parts = spread(topics, ["x", "y", "z"])
    given = [
        (t, i) for topics_of in parts.values() for t, those in topics_of.items() for i in those
    ]
    assert sorted(given) == [(t, i) for t, count in topics.items() for i in range(count)]
    sizes = {sum(map(len, topics_of.values())) for topics_of in parts.values()}
    assert max(sizes) - min(sizes) <= 1
    assert spread(topics, []) == {}


def test_a_group_for_each_partition():
    assert {partition_for(each, 50) for each in one_group_each(50)} == set(range(50))
