"""`kill -9` of a node and of the members of a share group: every record is accounted for.

By default there are three rounds of kills. `ODRADEK_SHARE_KILLS=100 pytest -m cluster
tests/crash/test_share_kills.py` runs 100. ODRADEK_SEED sets what is killed, and when. A failure
prints the seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.share_loop import RECORDS, ShareLoop
from tests.support.run_seed import run_seed

pytestmark = pytest.mark.cluster

KILLS = int(os.environ.get("ODRADEK_SHARE_KILLS", "3"))
SEED = run_seed()


@pytest.mark.timeout(180 + 20 * KILLS)
def test_every_record_is_accounted_for(tmp_path: Path, figures: list[str]) -> None:
    loop = ShareLoop(tmp_path, SEED)
    loop.run(KILLS)
    assert not loop.errors, f"seed {SEED}: {loop.errors[:10]}"
    assert sum(loop.outcomes.values()) == loop.written == RECORDS * (KILLS + 1)
    figures.append(
        f"{len(loop.node_kills)} kills of the node and {len(loop.member_kills)} of members, "
        f"{loop.written} records: {dict(sorted(loop.outcomes.items()))}; "
        f"dead letters: {dict(sorted(loop.outcomes_of_letters.items()))}"
    )
