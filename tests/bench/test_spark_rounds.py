"""`bench.spark`: turns, topics, failures, and what is stored."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.results import store
from bench.spark_jobs import Job, Rival
from bench.spark_rounds import Rounds

LINES = ["machine", "setup", "figure"]


class Runs:
    """Remembers which jobs ran, on which topics. Jobs in `failing` fail."""

    def __init__(self, *failing: str) -> None:
        self.made: list[str] = []
        self.taken: list[tuple[str, str]] = []
        self._failing = failing
        self.rounds = Rounds(lambda: {"JVM": float(len(self.taken))}, self.made.append)

    def job(self, name: str, *, writes: bool = False) -> Job:
        return Job(partial(self._run, name), writes)

    def play(self, *group: Rival) -> None:
        self.rounds.play(", cell", [group], "source-0", 1000, 2, with_figures=True)

    def _run(self, name: str, topic: str) -> None:
        self.taken.append((name, topic))
        if name in self._failing:
            raise OSError("no\nsuch\nbroker\nat all")


def test_the_order_changes_in_every_round_and_a_shared_job_runs_once() -> None:
    runs = Runs()
    ours, other, theirs = (runs.job(name) for name in ("ours", "other", "theirs"))
    runs.play(Rival("one", ours, theirs), Rival("two", other, theirs))
    assert [name for name, _ in runs.taken] == [
        "ours", "theirs", "other", "other", "theirs", "ours",
    ]  # fmt: skip
    assert {topic for _, topic in runs.taken} == {"source-0"}
    assert [figure.quantity.name for figure in runs.rounds.figures] == [
        f"{pair}, cell, {kind}" for pair in ("one", "two") for kind in ("rows", "CPU")
    ]
    assert all(len(each.values[role]) == 2 for each in runs.rounds.figures for role in each.values)


def test_each_write_has_a_topic_of_its_own() -> None:
    runs = Runs()
    ours, theirs = runs.job("ours", writes=True), runs.job("theirs", writes=True)
    runs.play(Rival("write", ours, theirs))
    topics = [topic for _, topic in runs.taken]
    assert len(set(topics)) == 4
    assert topics == runs.made == runs.rounds.topics


def test_a_failed_job_is_kept_as_a_failure_and_the_others_are_measured() -> None:
    runs = Runs("theirs")
    runs.play(Rival("read", runs.job("ours"), runs.job("theirs")))
    assert [name for name, _ in runs.taken] == ["ours", "theirs", "theirs", "ours"]
    assert [list(figure.values) for figure in runs.rounds.figures] == [[OURS], [OURS]]
    assert [figure.verdict for figure in runs.rounds.figures] == ["", ""]
    assert runs.rounds.failures == 2 * [
        {
            "kind": "failure",
            "name": f"read ({THEIRS}), cell",
            "topic": "source-0",
            "error": "OSError: no\nsuch\nbroker",
        }
    ]


def test_a_cell_that_cannot_begin_is_a_failure() -> None:
    runs = Runs()
    with runs.rounds.cell("cell, 1 KB, lz4"):
        raise TimeoutError("the topic was not created")
    (failure,) = runs.rounds.failures
    assert failure["name"] == "cell, 1 KB, lz4"
    with pytest.raises(KeyboardInterrupt), runs.rounds.cell("cell, 1 KB, zstd"):
        raise KeyboardInterrupt
    assert len(runs.rounds.failures) == 1


def test_results_so_far_replace_those_before(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    figure = Figure("spark", Quantity("read", "M/s", 3.0, higher_is_better=True))
    failure = {"kind": "failure", "name": "write"}
    machine, setup = {"kind": "machine", "time": "2026-11-23T20:33"}, {"kind": "setup"}
    for count in (1, 2):
        found = store([figure] * count, machine, setup, is_trial=True, output=path)
        assert found == path
        assert kinds(path) == ["machine", "setup", *["figure"] * count]
    store([figure], machine, setup, [failure], is_trial=True, output=path)
    assert kinds(path) == [*LINES, "failure"]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def kinds(path: Path) -> list[str]:
    """Return the kinds of the lines of a result."""
    return [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]
