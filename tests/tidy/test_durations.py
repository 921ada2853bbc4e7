"""The stored durations know the tests, and a slow test says why it is slow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.durations import SLOW_SECONDS, Cost, Durations, Run, stored
from tests.support.scheduling import group
from tests.tidy.sources import ROOT

UNKNOWN_MAX = 30
"""The number of test files that may be newer than the stored durations."""


def reasons(path: Path, function: str) -> list[str]:
    """The reasons that a test gives in `@pytest.mark.slow("why")` and in its module's `pytestmark`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks: list[ast.AST] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            marks += node.decorator_list
    calls = [
        call for mark in marks for call in ast.walk(mark)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.slow"
    ]  # fmt: skip
    return [each.value for call in calls for each in call.args if isinstance(each, ast.Constant)]


@pytest.mark.parametrize("nodeid", sorted(stored().slow))
def test_a_slow_test_gives_its_reason(nodeid: str) -> None:
    name, _, test = nodeid.partition("::")
    function = test.partition("[")[0].rpartition("::")[2]
    if not (ROOT / name).exists() or f"def {function}(" not in (ROOT / name).read_text():
        pytest.skip("the test has another name now")
    assert reasons(ROOT / name, function), (
        f"it took {stored().slow[nodeid]:.0f} s. A test of more than {SLOW_SECONDS:.0f} s says why: "
        '@pytest.mark.slow("why")'
    )


def test_the_stored_durations_know_most_tests() -> None:
    files = [str(each.relative_to(ROOT)) for each in (ROOT / "tests").glob("**/test_*.py")]
    unknown = {group(each) for each in files} - stored().groups.keys()
    assert len(unknown) <= UNKNOWN_MAX, f"run `make durations`; new are {sorted(unknown)}"


def test_what_did_not_run_keeps_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run()
    run.add("tests/a.py::test_x", "setup", 8.0, 1.0)
    run.add("tests/a.py::test_x", "call", 12.0, 1.0)
    run.add("tests/a.py::test_y", "setup", 11.0, 0.5)
    before = Durations(
        {"tests/a.py": Cost(50.0, 1.0), "tests/b.py": Cost(20.0, 2.0)},
        {"tests/a.py::test_old": 40.0, "tests/b.py::test_z": 20.0},
    )
    file = tmp_path / "durations.json"
    run.store(lambda nodeid: nodeid.partition("::")[0], before, file)
    monkeypatch.setattr("tests.support.durations.FILE", file)
    assert stored() == Durations(
        {"tests/a.py": Cost(31.0, 2.5), "tests/b.py": Cost(20.0, 2.0)},
        {"tests/a.py::test_x": 12.0, "tests/b.py::test_z": 20.0},
    )
    assert [name for name, _ in run.slowest(1)] == ["tests/a.py::test_x"]
