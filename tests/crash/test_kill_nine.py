"""`kill -9` under load: every acknowledged record is there afterwards, in order, once.

A few kills by default; for the full run, and to be told what it did,
`ODRADEK_KILLS=100 pytest tests/crash/test_kill_nine.py --log-cli-level=INFO`. The seed of the
moments at which the node dies is printed when something is wrong; ODRADEK_SEED sets it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from tests.crash.cleaning_loop import CleaningLoop
from tests.crash.kill_loop import KillLoop
from tests.support.run_seed import run_seed

KILLS = int(os.environ.get("ODRADEK_KILLS", "4"))
SEED = run_seed()

logger = logging.getLogger(__name__)


def play(loop: KillLoop) -> None:
    books = loop.run(KILLS)
    assert not books.complaints, f"seed {SEED}: {books.complaints[:10]}"
    assert books.acknowledged_count() == sum(books.sent) > KILLS * 300
    logger.info("%d kills, %d records acknowledged, none lost", KILLS, books.acknowledged_count())


@pytest.mark.timeout(120 + 20 * KILLS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    play(KillLoop(tmp_path, SEED))


@pytest.mark.timeout(120 + 20 * KILLS)
def test_nothing_is_lost_or_comes_back_while_the_log_is_cleaned(tmp_path: Path) -> None:
    loop = CleaningLoop(tmp_path, SEED)
    play(loop)
    assert loop.rounds > 0
    assert loop.left_behind[".cleaned"] > 0
    logger.info("%d rounds of cleaning; left after kills: %s", loop.rounds, loop.left_behind)
