"""Tests of one file run on one worker, and those of a group too."""

from __future__ import annotations

import pytest
from tests.support.scheduling import FIRST, GROUPS, group, rank

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
    assert group("tests/spark/test_demo.py::test_killed_in_the_middle[1]") == "the killed demo"
    assert group("tests/log/test_files.py::test_x") == "tests/log/test_files.py"
    assert rank(source) < rank("tests/crash/test_x.py::test_x") < rank("tests/log/test_files.py::x")


def test_what_is_named_exists(request: pytest.FixtureRequest) -> None:
    for name in (*GROUPS, *FIRST):
        path, _, test = name.partition("::")
        found = list(request.config.rootpath.glob(f"{path}*"))
        assert found, name
        assert not test or f"def {test}" in found[0].read_text(encoding="utf-8"), name
