"""Tests start processes with `tests.support.child`, which always ends them and tells their last words."""

from __future__ import annotations

from tests.tidy.sources import ROOT, source_files

TESTS = ROOT / "tests"
OTHERS = {"support/child.py", "cli/test_process.py", "tidy/test_children.py"}
"""The helper itself, and a process on a terminal."""


def test_no_test_starts_processes_by_itself() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in source_files()
        if path.suffix == ".py"
        and path.is_relative_to(TESTS)
        and "subprocess.Popen" in path.read_text(encoding="utf-8")
    }
    assert found - OTHERS == set(), "use tests.support.child.Child"
    assert found == OTHERS
