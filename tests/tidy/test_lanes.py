"""The lanes of the check: nothing that fails is lost, and nothing is left running."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.support.child import Child
from tests.tidy.sources import ROOT

PROGRAM = """
import pathlib, sys
sys.path.insert(0, {directory!r})
import lanes
from lanes import Lane
lanes.LOGS = pathlib.Path({logs!r})
sys.exit(lanes.main([{lanes}]))
"""


def start(logs: Path, lanes: str) -> Child:
    program = PROGRAM.format(directory=str(ROOT / ".ci"), logs=str(logs), lanes=lanes)
    return Child([sys.executable, "-c", program])


def test_a_failed_lane_is_shown_and_the_others_go_on(tmp_path: Path) -> None:
    lanes = (
        "Lane('breaks', ('sh', '-c', 'echo what broke; exit 3')),"
        "Lane('after', ('echo', 'never'), needs=('breaks',)),"
        "Lane('waits', ('sleep', '1')),"
        "Lane('beside', ('sh', '-c', 'echo; echo 3 passed; echo'), needs=('waits',), niceness=3),"
    )
    with start(tmp_path, lanes) as process:
        assert process.wait() == 1
        said = process.output
    assert "==== breaks: FAILED (3)" in said
    assert "\nwhat broke\n" in said
    assert "never\n" not in said
    lines = {line.split()[0]: line for line in said.splitlines()[-8:] if line.strip()}
    assert lines["breaks"].endswith("FAILED  what broke")
    assert lines["after"].endswith("not run")
    assert lines["beside"].endswith("passed  3 passed")
    assert said.endswith("the check has FAILED\n")


def test_all_lanes_have_passed(tmp_path: Path) -> None:
    with start(tmp_path, "Lane('one', ('true',)), Lane('two', ('true',), needs=('one',))") as check:
        assert check.wait() == 0
        assert check.output.endswith("the check has passed\n")


def test_a_check_that_is_ended_ends_its_lanes(tmp_path: Path) -> None:
    number = tmp_path / "number"
    lanes = (
        f"Lane('long', ('sh', '-c', 'echo $$ > {number}; exec sleep 100')),"
        f"Lane('short', ('sh', '-c', 'until [ -s {number} ]; do sleep 0.1; done')),"
    )
    with start(tmp_path, lanes) as process:
        process.wait_for("==== end of short")
        assert process.terminate() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(int(number.read_text()), 0)
