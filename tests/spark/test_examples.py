"""The pipeline `metrics` as a command: it ends with exact results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_metrics(tmp_path: Path) -> None:
    shown = run("examples.metrics", "--seconds", "3", "--output", str(tmp_path / "output"))
    assert "system.cpu" in shown
    assert "samples in windows" in shown
