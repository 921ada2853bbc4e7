"""The seed of a test run. The seeds of all generated tests are computed from this number.

The seed of a run is computed from the commit. Each commit is therefore tested with new data, and a
failure can be repeated. ODRADEK_SEED sets another seed. `tests/conftest.py` prints the seed, and
for each failure the command that repeats the failure.
"""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "ODRADEK_SEED"
SEEDS_MAX = 100_000
"""The maximum number of seeds of one test in one run. Runs with different seeds share no seeds."""
_ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 1_000_000


def run_seed() -> int:
    """Return the seed of this run. All processes that this process starts get the same seed."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(_commit_seed() or _date_seed())
    return int(os.environ[VARIABLE])


def seeds(count: int) -> range:
    """Return the first `count` consecutive seeds of this run."""
    assert count <= SEEDS_MAX, "seeds of the next run would be used"
    start = run_seed() * SEEDS_MAX
    return range(start, start + count)


def numbers_of_histories(count_variable: str, count: int) -> Sequence[int]:
    """Return the numbers of the histories of a test.

    ODRADEK_HISTORY may list the numbers. Otherwise, the environment variable `count_variable` has
    the number of histories. The default is `count`. The number of a history determines the history.
    """
    if "ODRADEK_HISTORY" in os.environ:
        return [int(each) for each in os.environ["ODRADEK_HISTORY"].split(",")]
    return seeds(int(os.environ.get(count_variable, str(count))))


def _commit_seed() -> int | None:
    """Return a seed from the id of the commit, or None outside of a repository."""
    try:
        said = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return int(said.stdout[:12], 16) % _LIMIT


def _date_seed() -> int:
    today = datetime.datetime.now(tz=datetime.UTC)
    return int(today.strftime("%y%m%d"))
