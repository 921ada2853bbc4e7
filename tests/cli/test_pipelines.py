"""`odradek pipeline`: the list, the errors, and the status with the lag of groups."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest
from tests.cli.conftest import invoke

from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.model.topic_partition import TopicPartition
from odradek.pipelines.reports import Report
from odradek.pipelines.runs import QueryState, Run, RunFile


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_list():
    assert "stages       Flights go through" in invoke("pipeline", "list").out
    assert {"name", "summary"} == set(invoke("pipeline", "list", "--json").json[0])


def test_the_list_elsewhere(monkeypatch):
    monkeypatch.setattr("odradek.pipelines.catalogue.examples", dict)
    outcome = invoke("pipeline", "list")
    assert (outcome.code, outcome.out) == (0, "")
    assert "in a clone" in outcome.err


@pytest.mark.parametrize(
    ("words", "code", "advice"),
    [
        (["stage"], 1, "Did you mean stages?"),
        (["stages", "--conf", "x"], 2, "write spark.NAME=VALUE"),
        (["no_such.py"], 1, "there is no file no_such.py"),
    ],
)
def test_errors(words, code, advice):
    outcome = invoke("pipeline", "run", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert advice in outcome.err


def test_without_spark(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name)
    )
    outcome = invoke("pipeline", "run", "stages")
    assert outcome.code == 1
    assert "pipelines need pyspark: pip install 'odradek[spark]'" in outcome.err


def test_no_pipelines_run():
    outcome = invoke("pipeline", "status")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("No pipeline runs. `odradek pipeline list`")
    assert invoke("pipeline", "status", "--json").json == []


@pytest.fixture
def run(bootstrap):
    report = Report("id-1", "shouts", 4, "2026-11-23T02:44:59.927Z", 10, 5.0, 2000, 0)
    run = Run("words", "/out", 17, 1, "local[*]", "/out/checkpoints", bootstrap)
    run.queries["id-1"] = QueryState(report, "/out/checkpoints/shouts", ["shouting"])
    return run


def test_the_status(odradek, topic, bootstrap, run):
    odradek("produce", topic, *"abcde", "-p", 0)
    with Cluster(bootstrap) as cluster:
        committed = {TopicPartition(topic, 0): CommittedOffset(2)}
        assert commit_offsets(cluster, "shouting", committed) == dict.fromkeys(committed)
    file = RunFile(run)
    shown = odradek("pipeline", "status").lines
    assert shown[1].split() == ["words", "running", "17", bootstrap, "/out"]
    row = "words shouts 4 2026-11-23T02:44:59.927Z 10 5 2.00 3 /out/checkpoints/shouts"
    assert shown[4].split() == row.split()
    (found,) = odradek("pipeline", "status", "--json").json
    assert (found["state"], found["queries"][0]["group_lag"]) == ("running", 3)
    file.close(keep=False)


def test_the_status_of_a_pipeline_that_failed(odradek, run, tmp_path):
    run = dataclasses.replace(run, output=str(tmp_path))
    file = RunFile(run)
    run.failed("no broker\n  at some line")
    file.save(run)
    file.close(keep=True)
    outcome = odradek("pipeline", "status")
    assert outcome.lines[1].split()[:2] == ["words", "failed"]
    assert outcome.err == "Warning: words failed: no broker\n"


def test_the_status_when_the_broker_does_not_respond(odradek, run, monkeypatch):
    monkeypatch.setattr("odradek.cli.pipeline.LAG_TIMEOUT_MS", 100)
    run.connected_to("127.0.0.1:1")
    file = RunFile(run)
    outcome = odradek("pipeline", "status")
    assert outcome.lines[4].split()[7] == "-"
    assert "the lag of words is not known" in outcome.err
    file.close(keep=False)


def test_a_new_pipeline(odradek, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert odradek("pipeline", "new", "clicks").lines == [
        "Wrote clicks/clicks.py",
        "Wrote clicks/test_clicks.py",
        "Wrote clicks/README.md",
        "Wrote clicks/pytest.ini",
    ]
    for path in (tmp_path / "clicks").iterdir():
        assert "$" not in path.read_text()
        if path.suffix == ".py":
            compile(path.read_text(), path, "exec")
    for name, message in (
        ("clicks", "clicks exists: choose another name"),
        ("json", "there is a module json in Python"),
        ("a-b", "'a-b' must have letters, digits and underscores"),
        ("class", "'class' must have letters"),
    ):
        assert message in odradek("pipeline", "new", name, code=1).err
