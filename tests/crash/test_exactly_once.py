"""Exactly once: jobs of three clients or their node are killed.

By default there are two kills for each client. `ODRADEK_JOB_KILLS=100 pytest
tests/crash/test_exactly_once.py` runs 100 for each. ODRADEK_SEED sets the times of the kills.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compat.lab.toolchain import Missing
from tests.crash.copy_jobs import PYTHON_CLIENTS, java_command, python_command
from tests.crash.exactly_once import ExactlyOnce
from tests.support.run_seed import run_seed

KILLS = int(os.environ.get("ODRADEK_JOB_KILLS", "2"))
SEED = run_seed()


def play(directory: Path, command: list[str]) -> None:
    run = ExactlyOnce(directory, command, SEED)
    run.run(KILLS)
    assert not run.errors, f"seed {SEED}: {run.errors}"
    assert run.job_kills + run.node_kills == KILLS
    assert sum(run.written) == run.copied_count() > 200 * KILLS


@pytest.mark.timeout(120 + 30 * KILLS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
@pytest.mark.slow("jobs and their node are killed and start again")
def test_in_python(tmp_path: Path, client: str) -> None:
    play(tmp_path, python_command(client))


@pytest.mark.java
@pytest.mark.timeout(180 + 30 * KILLS)
@pytest.mark.slow("jobs and their node are killed and start again")
def test_in_java(tmp_path: Path) -> None:
    try:
        command = java_command()
    except Missing as reason:
        pytest.skip(str(reason))
    play(tmp_path, command)
