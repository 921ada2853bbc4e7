"""`odradek simulate`."""

from __future__ import annotations

import pytest
from tests.cli.conftest import invoke
from tests.sim.__main__ import commands

from odradek.sim import campaign
from odradek.sim.scenario import Outcome
from odradek.sim.story import story

LINES = [
    "0 node1 start 1",
    "4000 node1 create /data/events-0/00000000000000000000.log",
    "5000 producer0 Produce 00ff",
    "6000 producer0 answer 00ff",
    "6000 producer0 ProduceResponse 00ff",
    "7000 producer0 Produce 00ff",
    "8000 member0 Fetch 00ff",
    "2500000 node1 killed",
    "2600000 node2 truncate /data/events-0/00000000000000000000.log",
    "2600000 node2 truncate /data/events-1/00000000000000000000.log",
    "2700000 member0 Fetch 00ff",
]
VIOLATION = "events-0: 'a' was acknowledged and is lost"
STORY = [
    "    0.000 s  node1  start 1",
    "             member0: 1 Fetch",
    "             producer0: 2 Produce",
    "    2.500 s  node1  killed",
    "    2.600 s  node2  truncate /data/events-0/00000000000000000000.log",
    "             member0: 1 Fetch",
]


def test_a_run_that_holds():
    outcome = invoke("simulate", "--seed", 3, "--nodes", 1, "--fault", "stop", "--json")
    assert outcome.code == 0
    assert outcome.json["failed"] == []
    assert [each for each in outcome.json["events"] if "fault" in each] == ["fault stop"]


def test_a_history_is_shortened():
    assert story(LINES, [VIOLATION]) == STORY


@pytest.fixture
def broken(monkeypatch):
    """Each run violates a guarantee."""

    def simulate(seed, make):
        make(seed)  # the scenario can be made with these options
        return Outcome(seed, [VIOLATION], LINES, {"produced": 3})

    monkeypatch.setattr(campaign, "simulate", simulate)


def test_a_run_that_fails(broken):
    words = ("simulate", "--seeds", 2, "--first", 7, "--nodes", 5, "--fault", "cut off")
    outcome = invoke(*words, "--processes", 1)
    assert outcome.code == 1
    assert "Seed 7 failed." in outcome.out
    assert VIOLATION in outcome.out
    assert all(f"  {line}\n" in outcome.out for line in STORY)
    repeat = "odradek simulate --seed 8 --nodes 5 --fault 'cut off'"
    assert repeat in outcome.out
    assert "2 seeds twice" in outcome.out
    assert outcome.out.endswith("2 failed\n")
    failed = invoke(*words, "--processes", 1, "--json").json["failed"]
    assert [each["seed"] for each in failed] == [7, 8]
    assert failed[1]["repeat"] == repeat


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--nodes", 2], "2 nodes have no majority"),
        (["--nodes", 3, "--fault", "torn"], "--fault 'torn' does not occur with 3 nodes; choose"),
        (["--fault", "flood"], "'flood' is not one of"),
    ],
)
def test_options_that_do_not_fit(words, problem):
    outcome = invoke("simulate", *words)
    assert outcome.code == 2
    assert problem in outcome.err


def test_the_program_of_the_tests():
    short = ["--nodes", "3", "--short", "--repeat-every", "10"]
    assert commands(["--cluster", "30", "5"]) == [
        ["simulate", "--seeds", "30", "--first", "5", *short]
    ]
    assert commands(["7", "1"]) == [["simulate", "--seeds", "7", "--first", "1", "--nodes", "1"]]
    one, cluster = commands([])
    assert one[:3] == ["simulate", "--seeds", "200"]
    assert cluster[:3] == ["simulate", "--seeds", "300"]
    assert cluster[5:] == short


def test_a_failure_is_repeated_with_as_few_faults_as_possible(monkeypatch):
    """Two faults are needed for a violation."""

    def simulate(seed, make):
        scenario = make(seed)
        count = 5 if scenario.faults_max is None else scenario.faults_max
        found = [VIOLATION] if count >= 2 else []
        return Outcome(seed, found, LINES[: 9 + count], {"fault kill": 3, "fault stop": 2})

    monkeypatch.setattr(campaign, "simulate", simulate)
    words = ("simulate", "--seed", 30, "--short", "--repeat-every", 10, "--processes", 1)
    outcome = invoke(*words)
    assert outcome.code == 1
    assert (
        "To repeat it: odradek simulate --seed 30 --nodes 3 --short --faults-max 2\n" in outcome.out
    )
    assert "1 seed twice" in outcome.out
    assert "seed, 0 of them twice," in invoke(*words[:2], 31, *words[3:]).out
