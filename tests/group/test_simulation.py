"""Random histories of a group; see `simulation`."""

from __future__ import annotations

import pytest
from tests.group.simulation import Simulation
from tests.support.run_seed import seeds


@pytest.mark.parametrize("seed", seeds(40))
def test_a_history(seed):
    Simulation(seed).run(40)


def test_the_same_seed_is_the_same_history():
    assert Simulation(7).run(40) == Simulation(7).run(40)
