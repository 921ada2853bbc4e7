"""A broker of Odradek in a cluster of Apache Kafka, and the reverse: nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab.cluster import APACHE, ODRADEK
from compat.lab.toolchain import Missing
from tests.crash.fault_loop import PARTITIONS
from tests.crash.mixed_loop import MixedLoop
from tests.support.run_seed import run_seed

pytestmark = [pytest.mark.java, pytest.mark.cluster]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("hosts", "guest"), [(APACHE, ODRADEK), (ODRADEK, APACHE)])
@pytest.mark.slow("nodes of Apache Kafka start, and one fails and returns")
def test_a_broker_joins_leads_fails_and_leaves(
    tmp_path: Path, figures: list[str], hosts: str, guest: str
) -> None:
    try:
        loop = MixedLoop(tmp_path, run_seed(), hosts, guest)
    except Missing as reason:
        pytest.skip(str(reason))
    report = loop.run(loop.count)
    assert not report.errors, report.errors[:10]
    assert sorted(loop.led) == list(range(PARTITIONS))
    assert report.acknowledged_count() == sum(report.sent)
    figures.append(f"{guest} among {hosts}: {report.acknowledged_count()} records acknowledged")
