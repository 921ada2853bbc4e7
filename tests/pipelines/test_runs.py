"""The files of runs: what runs, what was killed, and what failed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from odradek.pipelines import runs
from odradek.pipelines.reports import Report
from odradek.pipelines.runs import AlreadyRunningError, QueryState, Run, RunFile

REPORT = Report("id", "words", 3, "2026-11-23T02:44:59.927Z", 10, 5.0, 2000, 0)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def run(name="words", output="/out", started_at_ms=1):
    return Run(name, output, 17, started_at_ms, "local[*]", output + "/checkpoints")


def test_a_run_from_its_start_to_its_end():
    assert runs.load_all() == []
    expected = run()
    file = RunFile(expected)
    assert runs.load_all() == [expected]
    expected.connected_to("b:9092")
    expected.queries["id"] = QueryState(REPORT, "/out/checkpoints/words", ["group"])
    expected.stopping()
    file.save(expected)
    assert runs.load_all() == [expected]
    file.close(keep=False)
    assert runs.load_all() == []


def test_a_failed_run_is_kept_until_it_runs_again():
    failed = run()
    file = RunFile(failed)
    failed.failed("no broker")
    file.save(failed)
    file.close(keep=True)
    (found,) = runs.load_all()
    assert (found.state, found.error) == (runs.FAILED, "no broker")
    file = RunFile(run())
    assert [each.state for each in runs.load_all()] == [runs.RUNNING]
    file.close(keep=False)


def test_two_runs_with_the_same_output(monkeypatch):
    monkeypatch.setattr(runs, "LOCK_PAUSE_S", 0)
    first = RunFile(run())
    with pytest.raises(AlreadyRunningError, match="/out"):
        RunFile(run())
    other = RunFile(run(output="/other", started_at_ms=0))
    assert [each.output for each in runs.load_all()] == ["/other", "/out"]
    first.close(keep=False)
    other.close(keep=False)


def test_a_killed_run():
    code = """
import os, signal
from odradek.pipelines.runs import Run, RunFile
file = RunFile(Run("words", "/out", os.getpid(), 1, "local[*]", "/out/checkpoints"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (found,) = runs.load_all()
    assert found.state == runs.KILLED
