"""Simulated partitions on three brokers, and planted bugs that the checks find (see `world`).

`ODRADEK_REPLICA_HISTORIES` sets the number of histories; ODRADEK_HISTORY repeats one.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.replica.broker import Planted
from tests.replica.planted import BUGS
from tests.replica.stored_log import StoredLog
from tests.replica.world import Broken, World
from tests.support.run_seed import numbers_of_histories

STORED = 20
"""The number of histories with real logs."""
HISTORIES = numbers_of_histories("ODRADEK_REPLICA_HISTORIES", 60)


@pytest.mark.slow("hundreds of simulated histories")
def test_replicas_agree_and_lose_nothing() -> None:
    counts: Counter[str] = Counter()
    for seed in HISTORIES:
        world = World(seed)
        world.run()
        counts += world.counts
    if len(HISTORIES) >= 20:
        for each in ("acknowledged", "killed", "lost power", "moved", "cut", "alter made"):
            assert counts[each] > len(HISTORIES), counts


def test_real_logs_that_lose_power() -> None:
    """The logs are those of a broker, on a simulated disk. This takes longer."""
    parts = Planted()
    parts.log = StoredLog
    for seed in HISTORIES[:STORED]:
        World(seed, parts).run()


def test_a_seed_determines_the_history() -> None:
    first, second = World(HISTORIES[0]), World(HISTORIES[0])
    first.run()
    second.run()
    assert first.counts == second.counts
    assert first.acknowledged == second.acknowledged


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    for seed in range(bug.seeds):
        try:
            World(seed, bug.planted, bug.late_share).run()
        except Broken:
            return
    pytest.fail(f"not found in {bug.seeds} histories")
