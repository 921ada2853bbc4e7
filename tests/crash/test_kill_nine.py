"""`kill -9` under load: every acknowledged record is there afterwards, in order, once.

A few kills by default; `ODRADEK_KILLS=50 pytest tests/crash` for the full run. The seed of the
moments at which the node dies is printed when something is wrong; ODRADEK_SEED sets it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.kill_loop import KillLoop

KILLS = int(os.environ.get("ODRADEK_KILLS", "4"))
SEED = int(os.environ.get("ODRADEK_SEED", "20240701"))


@pytest.mark.timeout(120 + 20 * KILLS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    books = KillLoop(tmp_path, SEED).run(KILLS)
    assert not books.complaints, f"seed {SEED}: {books.complaints[:10]}"
    assert books.acknowledged_count() == sum(books.sent) > KILLS * 300
