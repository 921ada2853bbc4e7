"""Damaged requests of all APIs: no exception, and no memory for lengths without bytes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from compat.lab.toolchain import ROOT
from tests.attacks.fuzzer import Fuzzer
from tests.support.run_seed import seeds

COUNT = 3_000


def run_fuzzer(count: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.fuzzer", str(count)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_a_million_damaged_requests(figures: list[str]) -> None:
    percent = int(os.environ.get("ODRADEK_ATTACK_PERCENT", "100"))
    figures.append(run_fuzzer(percent * 10_000))


def test_damaged_requests() -> None:
    fuzzer = Fuzzer(seeds(1)[0])
    logging.disable()
    try:
        fuzzer.run(COUNT)
    finally:
        logging.disable(logging.NOTSET)
    assert fuzzer.outcomes.keys() == {"dispatched", "closed", "incomplete"}
