"""What the clients of a simulation find wrong."""

from __future__ import annotations

import pytest

from odradek.model.topic_partition import TopicPartition
from odradek.sim.facts import Commit, Facts, problem_of

EVENTS = [TopicPartition("events", index) for index in range(3)]


@pytest.mark.parametrize(
    ("attempts", "value", "problem"),
    [
        ([], -1, ""),
        ([Commit(5, 10)], -1, ""),
        ([Commit(5, 10, 20)], -1, "is lost"),
        ([Commit(5, 10, 20)], 5, ""),
        ([Commit(5, 10, 20)], 6, "is 6, which nobody wrote"),
        ([Commit(5, 10, 20), Commit(6, 30, 40)], 5, "is 5, which was replaced"),
        ([Commit(5, 10, 20), Commit(6, 30)], 5, ""),
        ([Commit(5, 10, 20), Commit(6, 30)], 6, ""),
        ([Commit(5, 10), Commit(6, 30, 40)], 5, ""),  # it may have arrived later
        ([Commit(5, 10, 20), Commit(6, 30, 200)], 5, ""),  # not acknowledged at the question
    ],
)
def test_a_value_that_is_found(attempts, value, problem) -> None:
    assert problem_of(attempts, value, 100) == problem


def test_producer_ids() -> None:
    facts = Facts()
    facts.initialized("a", 1, 0)
    facts.initialized("a", 1, 1)
    facts.initialized("a", 2, 0)
    assert facts.violations == []
    facts.initialized("a", 1, 1)
    facts.initialized("b", 2, 1)
    assert facts.violations == [
        "a got epoch 1 of producer id 1 after epoch 1",
        "a and b have the same producer id 2",
    ]


def test_owners_of_partitions() -> None:
    facts = Facts()
    facts.assigned("group", 1, "a", EVENTS[:2])
    facts.assigned("group", 1, "b", EVENTS[2:])
    facts.assigned("group", 2, "b", EVENTS)
    facts.assigned("group", 1, "a", EVENTS[:2])
    assert facts.violations == []
    facts.assigned("group", 1, "b", EVENTS[1:])
    assert facts.violations == ["group: a and b own events-1 in generation 1"]
