"""The runs of `tests.spark.faults`: what they kill follows from their seeds, and nothing is left out."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.faults.plan import (
    CHEAP_KINDS,
    EXACTLY_ONCE,
    STEPS_BY_GUARANTEE,
    pairs,
    plan,
)
from tests.spark.faults.source import Fault, at
from tests.support.run_seed import seeds

RUNS = 200
WAYS = [(each, False) for each in STEPS_BY_GUARANTEE] + [(EXACTLY_ONCE, True)]


@pytest.mark.parametrize(("guarantee", "on_cluster"), WAYS)
def test_two_hundred_runs_have_every_fault(guarantee, on_cluster):
    plans = [plan(seed, guarantee, on_cluster=on_cluster) for seed in seeds(RUNS)]
    firsts = Counter((each.faults[0].kind, each.faults[0].step) for each in plans)
    assert firsts.keys() == set(pairs(guarantee, on_cluster=on_cluster))
    assert min(firsts.values()) >= RUNS // len(pairs(guarantee, on_cluster=on_cluster))
    assert {each.distribution for each in plans} == {"tasks", "driver"}
    assert {each.brokers for each in plans} == ({1} if on_cluster else {1, 3})


def test_a_seed_determines_its_run():
    for seed in seeds(20):
        assert plan(seed, EXACTLY_ONCE) == plan(seed, EXACTLY_ONCE)


def test_a_step_is_passed_as_often_as_told(tmp_path):
    at(tmp_path, "begun")
    (tmp_path / "armed-begun").write_text("error 2")
    at(tmp_path, "begun")
    at(tmp_path, "task-end")
    at(tmp_path, "begun")
    assert not (tmp_path / "reached-begun").exists()
    with pytest.raises(Fault):
        at(tmp_path, "begun")
    assert (tmp_path / "reached-begun").exists()
    at(tmp_path, "begun")


def test_a_second_fault_needs_no_new_driver():
    kinds = {each.faults[1].kind for each in (plan(seed, EXACTLY_ONCE) for seed in seeds(50))}
    assert kinds == set(CHEAP_KINDS)
