"""A cluster of Apache Kafka becomes one of Odradek, and the reverse; no client sees an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab import java
from compat.lab.cluster import APACHE, ODRADEK
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing
from tests.crash.migration_loop import MigrationLoop
from tests.crash.secured_migration_loop import SecuredMigrationLoop
from tests.support.run_seed import run_seed

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long]
JOBS = Path(__file__).parent / "jobs"
SMALL = ["-Xmx128m", "-XX:TieredStopAtLevel=1"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [MigrationLoop, SecuredMigrationLoop])
def test_each_node_is_replaced_in_place(
    tmp_path: Path, figures: list[str], kind: type[MigrationLoop]
) -> None:
    try:
        jars = kafka_jars()
        classes = java.compiled(jars, JOBS)
        job = java.command("SteadyJob", jars, classes, options=["-Xmx128m"])
        tool = java.command("org.apache.kafka.tools.FeatureCommand", jars, options=SMALL)
        loop = kind(tmp_path, run_seed(), job, tool)
    except Missing as reason:
        pytest.skip(str(reason))
    report = loop.run(loop.count)
    assert not report.errors, report.errors[:10]
    assert [ODRADEK] * 3 in loop.programs
    assert loop.programs[-1] == [APACHE] * 3
    assert report.acknowledged_count() == sum(report.sent)
    assert loop.job is not None
    figures.append(
        f"{report.acknowledged_count()} records of librdkafka and {loop.job.acknowledged} of Java "
        f"acknowledged, {loop.job.committed} transactions"
    )
