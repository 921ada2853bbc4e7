"""Simulations of a cluster of three nodes: no guarantee is violated, and a seed gives one history."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from tests.support.run_seed import numbers_of_histories

from odradek.sim.cluster import ClusterScenario
from odradek.sim.scenario import SHORT, simulate


@pytest.mark.slow("some minutes of a simulated cluster")
@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_CLUSTER_SIMULATIONS", 2))
def test_no_violation(seed: int) -> None:
    assert simulate(seed, ClusterScenario).violations == []


def test_a_run_ends_when_the_start_offset_of_a_share_group_waits_for_later_records() -> None:
    """At the end of this seed, all records before the end offset are complete."""
    assert simulate(21_808_900_150, partial(ClusterScenario, pace=SHORT)).violations == []


def test_the_same_seed_gives_the_same_history() -> None:
    short = partial(ClusterScenario, pace=SHORT)
    one, other = simulate(5, short), simulate(5, short)
    assert one.lines == other.lines


@pytest.mark.cluster
@pytest.mark.slow("some minutes of four simulated clusters")
def test_the_runs_have_faults_and_records() -> None:
    counts: Counter[str] = Counter()
    for seed in (1, 2, 3, 5):
        counts.update(simulate(seed, ClusterScenario).counts)
    for what in (
        "produced", "produce repeated", "consumed", "joined", "offsets committed", "late commits",
        "settings changed", "fault kill", "fault stop", "fault cut off", "fault cut one way",
        "overlapping faults", "processed", "shared records delivered again",
        "shared records settled", "late acknowledgements of share members",
        "acknowledgements of share members refused",
    ):  # fmt: skip
        assert counts[what] > 0, what


@pytest.mark.cluster
def test_with_fewer_faults_a_run_begins_as_before() -> None:
    whole = simulate(3, ClusterScenario)
    part = simulate(3, partial(ClusterScenario, faults_max=1))
    assert part.violations == []
    assert [count for what, count in part.counts.items() if what.startswith("fault ")] == [1]
    places = [
        at
        for at, (one, other) in enumerate(zip(whole.lines, part.lines, strict=False))
        if one != other
    ]
    assert places, "the runs differ after the first fault"
    assert places[0] > 300


@pytest.mark.cluster
@pytest.mark.parametrize(("nodes", "faults"), [(3, ("power",)), (5, ("cut off", "kill"))])
def test_other_clusters_and_faults(nodes: int, faults: tuple[str, ...]) -> None:
    outcome = simulate(11, partial(ClusterScenario, faults=faults, nodes=nodes))
    assert outcome.violations == []
    assert {each for each in outcome.counts if each.startswith("fault ")} <= {
        f"fault {k}" for k in faults
    }
    assert outcome.counts[f"fault {faults[0]}"] > 0
