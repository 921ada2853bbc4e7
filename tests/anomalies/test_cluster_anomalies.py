"""Concurrent clients on a cluster whose nodes are killed and paused: only allowed anomalies occur.

A few seconds by default; `ODRADEK_CLUSTER_ANOMALY_SECONDS=300 pytest -m cluster tests/anomalies` for
the full run. The summary has the number of each anomaly. ODRADEK_SEED determines the faults.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.anomalies.servers import ThreeNodes
from tests.anomalies.test_anomalies import SEED, check_and_tell
from tests.anomalies.workload import Workload

SECONDS = float(os.environ.get("ODRADEK_CLUSTER_ANOMALY_SECONDS", "4"))


@pytest.mark.cluster
@pytest.mark.timeout(300 + 2 * SECONDS)
@pytest.mark.slow("clients and faults run for ten seconds")
def test_only_what_is_allowed_in_a_cluster(tmp_path: Path, figures: list[str]) -> None:
    workload = Workload(SEED, ThreeNodes(tmp_path))
    workload.run(SECONDS)
    check_and_tell(workload, figures)
