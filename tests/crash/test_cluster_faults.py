"""Three nodes are killed, stopped and paused under load: no acknowledged record is lost or doubled.

By default there are three faults. `ODRADEK_CLUSTER_FAULTS=200 pytest tests/crash/test_cluster_faults.py`
runs 200. ODRADEK_SEED sets the kinds and times of the faults. A failure prints the seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compat.lab.toolchain import Missing
from tests.crash.cluster_loop import ClusterLoop
from tests.support.run_seed import run_seed

pytestmark = pytest.mark.cluster

FAULTS = int(os.environ.get("ODRADEK_CLUSTER_FAULTS", "3"))
SEED = run_seed()


@pytest.mark.timeout(180 + 60 * FAULTS)
@pytest.mark.slow("the nodes of a cluster are killed and paused, and return")
def test_nothing_acknowledged_is_lost(tmp_path: Path, figures: list[str]) -> None:
    try:
        loop = ClusterLoop(tmp_path, SEED)
    except Missing as reason:
        pytest.skip(str(reason))
    report = loop.run(FAULTS)
    assert not report.errors, f"seed {SEED}: {report.errors[:10]}"
    assert report.acknowledged_count() == sum(report.sent) > FAULTS * 300
    figures.append(
        f"{dict(loop.faults)}, {report.acknowledged_count()} records acknowledged, "
        f"{loop.jobs.copied()} copied by jobs that were started {loop.jobs.starts} times"
    )
