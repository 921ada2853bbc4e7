"""The pipelines of `examples/` end with exact results."""

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


def test_logs(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "dpkg.log").write_text("2026-11-01 10:00:00 status installed x\n2026-11-02 Error: no\n")
    (logs / "deep" / "app").write_text("2026-11-02T10:00:01 ERROR broken\n  at a line\nunfinished")
    (logs / "binary").write_bytes(b"\0" * 10)
    shown = run("examples.logs", "--logs", str(logs), "--output", str(tmp_path / "output"))
    assert "4 lines of 2 files" in shown
    assert "2026-11-01 10:00:00 dpkg.log:1 2026-11-01 10:00:00 status installed x" in shown
    days = {each.name for each in (tmp_path / "output" / "lake").iterdir() if each.is_dir()}
    assert days - {"_spark_metadata"} == {"day=2026-11-01", "day=2026-11-02", "day=undated"}
