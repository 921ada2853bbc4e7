"""The simulated cluster finds bugs that are planted in replication."""

from __future__ import annotations

import pytest
from tests.replica.planted import AdvancesEarly, CountsOthers, TruncatesToHighWatermark

from odradek.broker.replication import fetchers, leading
from odradek.sim.cluster import ClusterScenario
from odradek.sim.scenario import simulate

pytestmark = pytest.mark.cluster

SEEDS_MAX = 12
"""Maximum number of seeds until an inserted bug must be found."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "name", "bug"),
    [
        (leading, "PartitionLeader", AdvancesEarly),
        (leading, "PartitionLeader", CountsOthers),
        (fetchers, "ReplicaFetcher", TruncatesToHighWatermark),
    ],
)
def test_a_planted_bug_is_found(monkeypatch, module, name, bug) -> None:
    monkeypatch.setattr(module, name, bug)
    assert any(simulate(seed, ClusterScenario).violations for seed in range(1, SEEDS_MAX))
