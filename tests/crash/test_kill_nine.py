"""`kill -9` under load: afterwards every acknowledged record is present once and in order.

By default there are four kills in each test. `ODRADEK_KILLS=100 pytest tests/crash/test_kill_nine.py`
runs 100 in each. ODRADEK_SEED sets the times of the kills. A failure prints the seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.cleaning_loop import CleaningLoop
from tests.crash.kill_loop import KillLoop
from tests.support.run_seed import run_seed

KILLS = int(os.environ.get("ODRADEK_KILLS", "4"))
SEED = run_seed()


def play(loop: KillLoop, figures: list[str]) -> None:
    report = loop.run(KILLS)
    assert not report.errors, f"seed {SEED}: {report.errors[:10]}"
    assert report.acknowledged_count() == sum(report.sent) > KILLS * 300
    figures.append(f"{KILLS} kills, {report.acknowledged_count()} records acknowledged, none lost")


@pytest.mark.timeout(120 + 20 * KILLS)
def test_nothing_acknowledged_is_lost(tmp_path: Path, figures: list[str]) -> None:
    play(KillLoop(tmp_path, SEED), figures)


@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.slow("the node is killed four times under load")
def test_nothing_is_lost_or_comes_back_while_the_log_is_cleaned(
    tmp_path: Path, figures: list[str]
) -> None:
    loop = CleaningLoop(tmp_path, SEED)
    play(loop, figures)
    assert loop.rounds > 0
    assert loop.left_behind[".cleaned"] > 0
    figures.append(f"{loop.rounds} rounds of cleaning; left after kills: {loop.left_behind}")
