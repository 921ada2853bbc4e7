"""Concurrent clients on a node that is killed and paused: only allowed anomalies occur.

A few seconds by default; `ODRADEK_ANOMALY_SECONDS=600 pytest tests/anomalies` for the full run. The
summary has the number of each anomaly. ODRADEK_SEED determines the faults.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.anomalies.servers import OneNode
from tests.anomalies.workload import Workload
from tests.support.run_seed import run_seed

from odradek.sim.anomalies import ALLOWED, KINDS, anomalies
from odradek.sim.operations import Outcome

SECONDS = float(os.environ.get("ODRADEK_ANOMALY_SECONDS", "4"))
SEED = run_seed()
TABLE = Path(__file__).parents[2] / "docs" / "decisions" / "transaction-anomalies.md"


@pytest.mark.timeout(300 + 2 * SECONDS)
@pytest.mark.slow("clients and faults run for ten seconds")
def test_only_what_is_allowed(figures: list[str]) -> None:
    workload = Workload(SEED, OneNode())
    workload.run(SECONDS)
    outcomes = check_and_tell(workload, figures)
    assert outcomes[Outcome.COMMITTED] > SECONDS


def check_and_tell(workload: Workload, figures: list[str]) -> Counter[Outcome]:
    """Check that there are only allowed anomalies. Return the number of transactions by outcome."""
    history = workload.history
    found = anomalies(history)
    counts = Counter(each.kind for each in found)
    outcomes = Counter(each.outcome for each in history if each.sends)
    reads = sum(len(each.reads) for each in history)
    sends = sum(len(each.sends) for each in history)
    counted: tuple[dict[str, int], ...] = (
        {"operations": len(history), "sends": sends, "reads": reads, **workload.faults},
        {outcome.value: outcomes[outcome] for outcome in Outcome},
        {kind: counts[kind] for kind in KINDS},
    )
    figures += [", ".join(f"{count} {what}" for what, count in each.items()) for each in counted]
    assert not [each for each in found if each.kind not in ALLOWED], f"seed {SEED}"
    assert outcomes[Outcome.COMMITTED]
    assert sum(workload.faults.values())
    return outcomes


def test_the_table_in_the_docs_is_that_of_the_checker() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|.*?\| (yes|no)\b", TABLE.read_text(), re.MULTILINE)
    assert rows == [(kind, "yes" if kind in ALLOWED else "no") for kind in KINDS]
