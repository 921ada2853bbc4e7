"""The runs of `tests.spark.faults`: what they kill follows from their seeds, and nothing is left out."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.faults.network import WAYS
from tests.spark.faults.plan import (
    CHEAP_KINDS,
    CLUSTER,
    CUT,
    CYCLE,
    EXACTLY_ONCE,
    EXECUTOR,
    LOCAL,
    STEPS_BY_GUARANTEE,
    pairs,
    plan,
)
from tests.spark.faults.source import Fault, at
from tests.support.run_seed import seeds

RUNS = CYCLE
CHOICES = [(each, LOCAL) for each in STEPS_BY_GUARANTEE] + [(EXACTLY_ONCE, CLUSTER)]


@pytest.mark.parametrize(("guarantee", "where"), CHOICES)
def test_two_hundred_runs_have_every_fault(guarantee, where):
    plans = [plan(seed, guarantee, where) for seed in seeds(RUNS)]
    firsts = Counter((each.faults[0].kind, each.faults[0].step) for each in plans)
    planned = pairs(guarantee, on_cluster=where == CLUSTER)
    assert firsts.keys() == set(planned)
    assert min(firsts.values()) >= RUNS // len(planned)
    assert {each.distribution for each in plans} == {"tasks", "driver"}
    assert {each.brokers for each in plans} == {1, 3}
    assert {each.on_cluster for each in plans} == {where == CLUSTER}


def test_two_hundred_runs_are_on_one_machine_and_on_a_cluster():
    plans = [plan(seed, EXACTLY_ONCE) for seed in seeds(RUNS)]
    assert Counter((each.on_cluster, each.brokers) for each in plans) == {
        (False, 1): 50,
        (False, 3): 90,
        (True, 3): 60,
    }
    for on_cluster in (False, True):
        those = [each for each in plans if each.on_cluster == on_cluster]
        firsts = {(each.faults[0].kind, each.faults[0].step) for each in those}
        assert firsts == set(pairs(EXACTLY_ONCE, on_cluster=on_cluster))
    faults = [fault for each in plans for fault in each.faults]
    assert {fault.way for fault in faults if fault.kind == CUT} == set(WAYS)
    assert sum(fault.kind == EXECUTOR for fault in faults) > 10


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
