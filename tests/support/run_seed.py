"""The seed of a test run: one number from which every generated test takes its own.

It is that of the commit, so that each commit looks at something new and a failure can be repeated.
ODRADEK_SEED sets another one. `tests/conftest.py` prints it, and with each failure the command that
repeats it.
"""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "ODRADEK_SEED"
SEEDS_MAX = 100_000
"""Of one test in one run; runs with different seeds share none of them."""
_ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 1_000_000


def run_seed() -> int:
    """The seed of this run; the same in all processes that it starts."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(_commit_seed() or _date_seed())
    return int(os.environ[VARIABLE])


def seeds(count: int) -> range:
    """So many seeds of this run, one after another."""
    assert count <= SEEDS_MAX, "seeds of the next run would be used"
    start = run_seed() * SEEDS_MAX
    return range(start, start + count)


def numbers_of_histories(count_variable: str, count: int) -> Sequence[int]:
    """The histories of a test: those of ODRADEK_HISTORY, or as many as a variable says.

    A history is made from its number alone.
    """
    if "ODRADEK_HISTORY" in os.environ:
        return [int(each) for each in os.environ["ODRADEK_HISTORY"].split(",")]
    return seeds(int(os.environ.get(count_variable, str(count))))


def _commit_seed() -> int | None:
    """None outside of a repository."""
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
