"""Histories with crashes at every step. ODRADEK_SEEDS says how many."""

from __future__ import annotations

import os

import pytest
from tests.support.run_seed import seeds
from tests.transaction.simulation import Simulation

SEEDS = int(os.environ.get("ODRADEK_SEEDS", "12"))


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_all_or_nothing(seed):
    simulation = Simulation(seed, level=seed % 3 and 2, is_replicated=seed % 2 == 1)
    try:
        simulation.play(400)
        simulation.check()
    finally:
        simulation.coordinator.close()
    assert sum(simulation.promised.values()) > 10, "some were committed"
    assert "crash" in simulation.trace


def test_the_same_seed_is_the_same_history():
    traces = []
    for _ in range(2):
        simulation = Simulation(7)
        simulation.play(100)
        simulation.coordinator.close()
        traces.append(simulation.trace)
    assert traces[0] == traces[1]
