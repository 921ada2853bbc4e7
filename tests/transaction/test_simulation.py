"""Histories with crashes at every step. ODRADEK_SEEDS says how many."""

from __future__ import annotations

import os

import pytest
from tests.support.run_seed import seeds
from tests.transaction.simulation import World

SEEDS = int(os.environ.get("ODRADEK_SEEDS", "12"))


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_all_or_nothing(seed):
    world = World(seed, level=seed % 3 and 2, is_replicated=seed % 2 == 1)
    try:
        world.play(400)
        world.check()
    finally:
        world.coordinator.close()
    assert sum(world.promised.values()) > 10, "some were committed"
    assert "crash" in world.trace


def test_the_same_seed_is_the_same_history():
    traces = []
    for _ in range(2):
        world = World(7)
        world.play(100)
        world.coordinator.close()
        traces.append(world.trace)
    assert traces[0] == traces[1]
