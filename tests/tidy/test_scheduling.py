"""Tests of one file run on one worker, and those of a group too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.support.scheduling import FIRST, GROUPS, GroupScheduling, group, rank

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
    assert rank(source) < rank("tests/crash/test_x.py::test_x") < rank("tests/log/test_files.py::x")


class Worker:
    """Keeps what a worker would be sent."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="worker")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_one_worker_waits_for_the_end_of_spark(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = [f"tests/spark/test_x.py::test_{number}" for number in range(4)]
    others = [f"tests/log/test_{name}.py::test_{number}" for name in "abcde" for number in range(4)]
    monkeypatch.setattr(request.config.option, "tx", ["popen"] * 3)
    scheduling = GroupScheduling(request.config)
    workers = [Worker() for _ in range(3)]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, [*spark, *others])
    scheduling.schedule()
    first, second, third = workers
    assert first.sent == [0, 1, 2, 3]
    assert second.sent == [4, 5, 6, 7]
    for index in range(len(spark)):
        assert not third.sent
        scheduling.mark_test_complete(first, index)
    assert third.sent
    done = set(range(4))
    while not scheduling.tests_finished or not all(each.shutting_down for each in workers):
        for worker in workers:
            for index in set(worker.sent) - done:
                done.add(index)
                scheduling.mark_test_complete(worker, index)
    assert sorted(first.sent + second.sent + third.sent) == list(range(24))
    assert all(each.shutting_down for each in workers)


def test_what_is_named_exists(request: pytest.FixtureRequest) -> None:
    for name in (*GROUPS, *FIRST):
        path, _, test = name.partition("::")
        found = list(request.config.rootpath.glob(f"{path}*"))
        assert found, name
        assert not test or f"def {test}" in found[0].read_text(encoding="utf-8"), name
