"""Simulated quorums: no committed record is lost, and the checks find planted bugs.

The seed determines a history. ODRADEK_HISTORIES sets the number of seeds.
"""

import pytest
from tests.support.run_seed import numbers_of_histories, seeds

from .checks import Violation
from .cluster import Cluster
from .planted_bugs import PLANTED

COUNT = "ODRADEK_HISTORIES"
SIZES = (3, 3, 5)


def faults(seed):
    """All kinds of faults; in every second history the voters change too."""
    Cluster(seed, SIZES[seed % 3], observers=(0, 2)[seed % 2]).history(20)


def elections(seed):
    """One election after the other, with crashes of nodes that have just voted."""
    Cluster(seed, SIZES[seed % 3], hasty=True).elections(40)


@pytest.mark.parametrize("seed", numbers_of_histories(COUNT, 30))
def test_faults(seed):
    faults(seed)


def test_a_paused_candidate_that_wins_too_late():
    """It lacks what the leader of a later epoch has committed. The check took this for a loss."""
    faults(89308200000)


@pytest.mark.parametrize("seed", numbers_of_histories(COUNT, 4))
def test_observers_join_by_themselves(seed):
    cluster = Cluster(seed, SIZES[seed % 3], observers=2, auto_join=True)
    cluster.history(10)
    cluster.check_joined()


@pytest.mark.parametrize("seed", numbers_of_histories(COUNT, 6))
def test_elections(seed):
    elections(seed)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_found(bug, monkeypatch):
    bug(monkeypatch)
    with pytest.raises(Violation):
        _all_elections(seeds(PLANTED[bug]))


def _all_elections(numbers):
    for seed in numbers:
        elections(seed)


def test_a_history_is_determined_by_its_seed():
    first, second = (Cluster(7, 3, observers=2) for _ in range(2))
    for each in (first, second):
        each.history(10)
    assert first.checks.committed == second.checks.committed
    assert first.now == second.now
