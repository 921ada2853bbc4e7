"""The pipelines of `examples/` end with exact results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_metrics(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.metrics", "--seconds", "3"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "output")],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "system.cpu" in done.stdout
    assert "samples in windows" in done.stdout
