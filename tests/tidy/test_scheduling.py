"""Tests of one file run on one worker, and those of a group too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.checkout import ROOT
from tests.support import scheduling
from tests.support.durations import Cost, Durations
from tests.support.scheduling import GROUPS, SPARK, GroupScheduling, by_duration, chosen, group

PARTS = range(40)
seen: list[int] = []


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_of_a_file(part: int) -> None:
    seen.append(part)


def test_all_parts_ran_in_this_process(request: pytest.FixtureRequest) -> None:
    if all(each.name != "test_the_parts_of_a_file[0]" for each in request.session.items):
        pytest.skip("only this test was chosen")
    assert seen == list(PARTS)


def test_files_that_share_something_are_one_group() -> None:
    source, planning = (f"tests/spark/test_{name}.py::test_x[@]" for name in ("source", "planning"))
    assert group(source) == group(planning) == "a Spark session"
    assert (
        group("tests/spark/test_demo.py::test_interrupted_in_the_middle[1]")
        == "the interrupted demo"
    )
    assert group("tests/log/test_files.py::test_x") == "tests/log/test_files.py"


COSTS = {
    "tests/busy_long.py": Cost(30.0, 30.0),
    "tests/busy.py": Cost(20.0, 20.0),
    "tests/waits_long.py": Cost(15.0, 1.5),
    "tests/waits.py": Cost(10.0, 1.0),
}


def test_the_longest_group_for_which_there_are_processors_is_next() -> None:
    assert chosen(COSTS.items(), 2.0) == "tests/busy_long.py"
    assert chosen(COSTS.items(), 0.5) == "tests/waits_long.py"
    assert chosen(COSTS.items(), -1.0) == "tests/waits_long.py", "a worker never waits"
    assert chosen([("tests/busy.py", COSTS["tests/busy.py"])], 0.0) == "tests/busy.py"


def test_the_longest_groups_are_first_and_keep_the_order_of_their_tests() -> None:
    ids = ["tests/new.py::b", "tests/waits.py::b", "tests/busy_long.py::c", "tests/waits.py::a"]
    items = [SimpleNamespace(nodeid=each) for each in ids]
    by_duration(items, Durations(COSTS))
    assert [each.nodeid for each in items] == [ids[2], ids[1], ids[3], ids[0]]


class Worker:
    """Keeps what a worker would be sent."""

    def __init__(self, name: str) -> None:
        self.sent: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id=name)

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_first_worker_runs_spark_and_busy_tests_run_beside_waiting_ones(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = {**COSTS, "a Spark session": Cost(100.0, 100.0)}
    monkeypatch.setattr(scheduling, "stored", lambda: Durations(costs))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    files = ["tests/spark/test_x.py", *COSTS]
    tests = [f"{file}::test_{number}" for file in files for number in range(4)]
    monkeypatch.setattr(request.config.option, "tx", ["popen"] * 3)
    queue = GroupScheduling(request.config)
    workers = [Worker(f"gw{number}") for number in (1, 0, 2)]
    for worker in workers:
        queue.add_node(worker)
        queue.add_node_collection(worker, tests)
    queue.schedule()
    second, first, third = workers
    assert first.sent == [0, 1, 2, 3]
    assert second.sent == [4, 5, 6, 7]
    assert third.sent == [12, 13, 14, 15], "two processors are busy"
    done: set[int] = set()
    while not queue.tests_finished or not all(each.shutting_down for each in workers):
        for worker in workers:
            for index in set(worker.sent) - done:
                done.add(index)
                queue.mark_test_complete(worker, index)
    assert sorted(first.sent + second.sent + third.sent) == list(range(len(tests)))


FILES_WITH_DEATHS = {
    "conftest.py": """
from tests.support.scheduling import GroupScheduling

def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
""",
    "test_several.py": """
import os

def test_before(): pass
def test_dies(): os._exit(1)
def test_after(): pass
""",
    "test_alone.py": "import os\ndef test_dies_alone(): os._exit(1)\n",
    "test_other.py": "def test_passes(): pass\n",
}


def test_a_worker_that_dies_fails_its_test_and_others_run_the_rest(tmp_path: Path) -> None:
    for name, text in FILES_WITH_DEATHS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    plugins = ["-p", "no:cacheprovider", "-p", "xdist.plugin", "-n", "2"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), *plugins, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "2 failed, 3 passed" in run.stdout
    for test in ("test_several.py::test_dies", "test_alone.py::test_dies_alone"):
        assert f"crashed while running '{test}'" in run.stdout


def test_what_is_named_exists(request: pytest.FixtureRequest) -> None:
    assert set(SPARK) <= set(GROUPS.values())
    for name in GROUPS:
        path, _, test = name.partition("::")
        found = list(request.config.rootpath.glob(f"{path}*"))
        assert found, name
        assert not test or f"def {test}" in found[0].read_text(encoding="utf-8"), name
