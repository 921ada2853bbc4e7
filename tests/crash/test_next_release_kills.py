"""Quorums of Odradek and Apache Kafka 4.3 or 4.4 lose nothing when nodes are killed and levels rise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compat.lab import java
from compat.lab.apache_kafka import BRIEF_JVM_OPTIONS
from compat.lab.cluster import APACHE, ODRADEK
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing
from tests.crash.fault_loop import Report
from tests.crash.next_loop import NEXT, KillLoop, LevelLoop
from tests.support.run_seed import run_seed

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("ODRADEK_RELEASE_KILLS", "3"))


def check(report: Report) -> None:
    assert not report.errors, report.errors[:10]
    assert report.acknowledged_count() == sum(report.sent)


@pytest.mark.parametrize(("formats", "runs"), [(NEXT, ODRADEK), (ODRADEK, NEXT)])
def test_a_node_on_the_directory_of_the_other(
    tmp_path: Path, figures: list[str], formats: str, runs: str
) -> None:
    try:
        loop = KillLoop(tmp_path, run_seed(), formats, runs)
    except Missing as reason:
        pytest.skip(str(reason))
    report = loop.run(KILLS)
    check(report)
    figures.append(f"{loop.kills} kills, {report.acknowledged_count()} records acknowledged")


@pytest.mark.parametrize(
    "programs",
    [
        (ODRADEK, NEXT, NEXT),
        (ODRADEK, ODRADEK, NEXT),
        (ODRADEK, APACHE, APACHE),
        (ODRADEK, ODRADEK, APACHE),
    ],
    ids="-".join,
)
def test_levels_rise_under_load(
    tmp_path: Path, figures: list[str], programs: tuple[str, ...]
) -> None:
    try:
        options = list(BRIEF_JVM_OPTIONS)
        command = java.command(
            "org.apache.kafka.tools.FeatureCommand", next_jars(), options=options
        )
        loop = LevelLoop(tmp_path, run_seed(), programs, command)
    except Missing as reason:
        pytest.skip(str(reason))
    report = loop.run(loop.count)
    check(report)
    # Whichever program has the active controller, the same text says why there is no way back.
    assert set(loop.refused) == set(programs)
    assert len(set(loop.refused.values())) == 1
    assert "might delete metadata information" in next(iter(loop.refused.values()))
    figures.append(
        f"{'-'.join(programs)}: to {loop.last}, {loop.kills} kills, "
        f"{report.acknowledged_count()} records acknowledged"
    )
