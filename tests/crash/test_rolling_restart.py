"""Each of three nodes is restarted under load: no client of Java or librdkafka sees an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab import java
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing
from tests.crash.rolling_loop import NODE_IDS, RollingLoop
from tests.support.run_seed import run_seed

pytestmark = [pytest.mark.java, pytest.mark.cluster]
JOBS = Path(__file__).parent / "jobs"


@pytest.mark.timeout(300)
@pytest.mark.slow("each node restarts once under load")
def test_no_client_sees_an_error(tmp_path: Path, figures: list[str]) -> None:
    try:
        jars = kafka_jars()
        classes = java.compiled(jars, JOBS)
        command = java.command("SteadyJob", jars, classes, options=["-Xmx128m"])
    except Missing as reason:
        pytest.skip(str(reason))
    loop = RollingLoop(tmp_path, run_seed(), command)
    report = loop.run(len(NODE_IDS))
    assert not report.errors, report.errors[:10]
    assert report.acknowledged_count() == sum(report.sent)
    assert loop.job is not None
    figures.append(
        f"{report.acknowledged_count()} records of librdkafka and {loop.job.acknowledged} of Java "
        f"acknowledged, {loop.job.committed} transactions"
    )
