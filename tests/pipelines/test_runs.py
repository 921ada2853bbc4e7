"""The files of runs: what runs, what was killed, and what failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli.pipeline import clean
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


def fail(failed):
    file = RunFile(failed)
    failed.failed("no broker")
    file.save(failed)
    file.close(keep=True)


@pytest.fixture
def output(tmp_path) -> str:
    directory = tmp_path / "output"
    directory.mkdir()
    return str(directory)


def test_a_failed_run_is_kept_until_it_runs_again(output):
    fail(run(output=output))
    (found,) = runs.load_all()
    assert (found.state, found.error) == (runs.FAILED, "no broker")
    file = RunFile(run(output=output))
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


def test_a_run_whose_output_was_deleted_is_forgotten(output):
    fail(run(output=output))
    running = RunFile(run("other"))
    Path(output).rmdir()
    assert [each.name for each in runs.load_all()] == ["other"]
    Path(output).mkdir()
    assert [each.name for each in runs.load_all()] == ["other"]
    running.close(keep=False)


@pytest.mark.parametrize("outputs", [False, True])
def test_runs_that_have_ended_are_cleaned(output, outputs):
    fail(run(output=output))
    running = RunFile(run("other", output=str(Path(output).parent)))
    said = CliRunner().invoke(clean, ["--outputs"] if outputs else [])
    assert said.exit_code == 0, said.output
    verb = "Deleted" if outputs else "Forgot"
    assert said.output == f"{verb} words in {output}\n"
    assert Path(output).exists() != outputs
    assert [each.name for each in runs.load_all()] == ["other"]
    running.close(keep=False)
    assert "No pipeline has failed" in CliRunner().invoke(clean).output


def test_a_killed_run(output):
    code = """
import os, signal, sys
from odradek.pipelines.runs import Run, RunFile
file = RunFile(Run("words", sys.argv[1], os.getpid(), 1, "local[*]", "checkpoints"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, output], check=False)
    (found,) = runs.load_all()
    assert found.state == runs.KILLED
