"""`make proofs`: which results of long tests are stored, progress, and interruption."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from bench.proofs import __main__ as proofs
from bench.proofs.catalogue import GROUPS, LONG_TESTS, chosen
from bench.proofs.long_test import LongTest
from compat.lab.toolchain import ROOT
from tests.support.child import Child

FIGURE = "tests/x.py::test_x: 7 histories"


def python(code: str) -> LongTest:
    return LongTest("named", "things", 100, (sys.executable, "-c", code), "ODRADEK_THINGS")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(proofs, "RESULTS", tmp_path)
    monkeypatch.setattr(proofs, "LOCAL", tmp_path / "local")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *tests: LongTest, arguments: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr(proofs, "chosen", lambda names: list(tests))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest keeps its own handlers
    return proofs.main(arguments)


def test_a_passed_test_is_stored_with_its_figures(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import os; print({FIGURE!r}, 1, 2, os.environ['ODRADEK_THINGS'], sep=chr(10))"
    assert run(monkeypatch, python(code)) == 0
    (line,) = (results / "named.jsonl").read_text().splitlines()
    stored = json.loads(line)
    assert stored["outcome"] == "passed"
    assert stored["count"] == 100
    assert stored["said"] == [FIGURE, "1", "2", "100"]
    assert {"commit", "seed", "time", "seconds", "command"} <= stored.keys()


def test_a_quick_run_is_stored_elsewhere(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, python("pass"), arguments=("--quick",)) == 0
    assert not (results / "named.jsonl").exists()
    stored = json.loads((results / "local" / "named.jsonl").read_text())
    assert stored["count"] == 2


def test_a_failed_test_is_stored_and_the_next_one_runs(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, python("raise SystemExit(1)"), python("pass")) == 1
    lines = (results / "named.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["failed", "passed"]


@pytest.mark.parametrize(
    "code",
    ["import os; os.kill(os.getpid(), 9)", "import os; os.kill(os.getpid(), 2); input()"],
)
def test_a_test_that_a_signal_ended_is_not_stored(
    code: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, python(code), python("pass")) == proofs.EXIT_INTERRUPTED
    assert list(results.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_its_processes_and_stores_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    inner = "import time; print('begun', flush=True)\ntry: time.sleep(200)\nfinally: print('ended')"
    code = (
        "import pathlib, sys\n"
        "from bench.proofs import __main__ as proofs\n"
        "from bench.proofs.long_test import LongTest\n"
        f"proofs.RESULTS = pathlib.Path({str(tmp_path)!r})\n"
        f"test = LongTest('named', 'things', 1, (sys.executable, '-c', {inner!r}))\n"
        "proofs.chosen = lambda names: [test, test]\n"
        "sys.exit(proofs.main([]))\n"
    )
    with Child([sys.executable, "-c", code], directory=ROOT) as process:
        assert process.wait_for("begun") == "named: things\nbegun\n"
        process.signal(number)
        assert process.wait() == proofs.EXIT_INTERRUPTED
        assert "nothing is stored" in process.output
    assert list(tmp_path.iterdir()) == []


def test_progress_is_printed_during_a_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(proofs, "PROGRESS_SECONDS", 0.01)
    goes_on = tmp_path / "goes on"
    code = (
        "import pathlib, time\n"
        "from tests.support import progress\n"
        "progress.report(3, 9, 'kills')\n"
        f"while not pathlib.Path({str(goes_on)!r}).exists(): time.sleep(0.01)\n"
    )
    lines = []

    def record(text: str, *, flush: bool) -> None:
        assert flush
        lines.append(text)
        if "3 of 9 kills" in text:
            goes_on.touch()

    monkeypatch.setattr(proofs, "print", record, raising=False)
    assert proofs.run_to_the_end([sys.executable, "-c", code], {**os.environ}, "named") == (0, [])
    assert lines[-1].startswith("named: ")


def test_names_are_unique_and_groups_name_long_tests() -> None:
    names = [each.name for each in LONG_TESTS]
    assert len(set(names)) == len(names)
    for name, members in GROUPS.items():
        assert [each.name for each in chosen([name])] == list(members)
    with pytest.raises(KeyError):
        chosen(["nothing"])


@pytest.mark.parametrize("test", LONG_TESTS, ids=lambda test: test.name)
def test_every_count_reaches_the_command(test: LongTest) -> None:
    """With --quick, the count is smaller."""
    assert test.size(quick=False) == test.count
    if test.variable is not None:
        full = int(test.environment(quick=False)[test.variable])
        assert full * test.divisor == test.count
        assert int(test.environment(quick=True)[test.variable]) < full
    elif test.has_count_argument:
        assert test.full_command(quick=False)[-1] == str(test.count)
        assert int(test.full_command(quick=True)[-1]) < test.count
    else:
        assert test.count == 1
