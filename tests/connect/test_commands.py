"""The commands of `odradek connect` that ask a worker, and the connector that `new` makes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from tests.connect.lab import Lab

from odradek.cli.main import run
from odradek.testing import Broker


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with Broker() as broker, Lab(broker.bootstrap_servers, tmp_path) as running:
        monkeypatch.setenv("ODRADEK_CONNECT_URL", f"http://127.0.0.1:{running.worker.port}")
        yield running


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Return what a command prints on stdout, or on stderr if it fails."""
    capsys.readouterr()
    found = run(["connect", *words])
    output = capsys.readouterr()
    assert found == code, output.err
    return output.err if code else output.out


def test_a_connector_s_life(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "reader.json"
    (tmp_path / "in").write_text("a\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "t"}
    file.write_text(json.dumps({"name": "reader", "config": {**config, "tasks.max": "0"}}))
    assert "tasks.max: Invalid value 0" in said(capsys, "validate", str(file), code=1)
    assert "Value must be at least 1" in said(capsys, "apply", str(file), code=1)
    file.write_text(json.dumps({"name": "reader", "config": config}))
    assert said(capsys, "validate", str(file)) == ""
    said(capsys, "apply", str(file))
    lab.until(lambda: lab.states("reader") == ("RUNNING", ["RUNNING"]))
    assert "reader" in said(capsys, "ls")
    listed = json.loads(said(capsys, "ls", "--json"))
    assert listed["reader"]["health"] == "RUNNING"
    assert "topic=t" in said(capsys, "get", "reader")
    assert json.loads(said(capsys, "get", "reader", "--json"))["config"] == {
        **config,
        "name": "reader",
    }
    said(capsys, "pause", "reader")
    lab.until(lambda: lab.states("reader") == ("PAUSED", ["PAUSED"]))
    said(capsys, "resume", "reader")
    said(capsys, "restart", "reader", "--tasks")
    lab.until(lambda: lab.states("reader") == ("RUNNING", ["RUNNING"]))
    lab.until(lambda: "position" in said(capsys, "offsets", "reader"))
    said(capsys, "stop", "reader")
    saved = tmp_path / "offsets.json"
    saved.write_text(said(capsys, "offsets", "reader", "--json"))
    assert json.loads(saved.read_text())["offsets"][0]["offset"] == {"position": 2}
    said(capsys, "offsets", "reader", "--reset")
    assert json.loads(said(capsys, "offsets", "reader", "--json")) == {"offsets": []}
    said(capsys, "offsets", "reader", "--set", str(saved))
    assert json.loads(said(capsys, "offsets", "reader", "--json")) == json.loads(saved.read_text())
    said(capsys, "delete", "reader")
    assert json.loads(said(capsys, "ls", "--json")) == {}
    assert "404: Connector reader not found" in said(capsys, "get", "reader", code=1)


def test_plugins_and_loggers(lab: Lab, capsys: pytest.CaptureFixture[str]):
    assert "FileStreamSinkConnector" in said(capsys, "plugins")
    assert "RegexRouter" in said(capsys, "plugins", "--all")
    assert "batch.size" in said(capsys, "plugins", "FileStreamSource")
    assert (
        said(capsys, "loggers", "odradek.connect.some", "debug").split()[-1]
        == "odradek.connect.some"
    )
    found = json.loads(said(capsys, "loggers", "odradek.connect.some", "--json"))
    assert found["level"] == "DEBUG"


def test_a_worker_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]):
    output = said(capsys, "ls", "--url", "http://127.0.0.1:1", code=1)
    assert "http://127.0.0.1:1 cannot be reached" in output


def test_the_new_connector_passes_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    said(capsys, "new", "heart-beats")
    monkeypatch.syspath_prepend(tmp_path / "heart-beats")
    test = importlib.import_module("test_heart_beats")
    test.test_it_counts_and_goes_on_where_it_stopped()
    assert "write a name like" in said(capsys, "new", "Heart Beats", code=2)
    assert "cannot be made" in said(capsys, "new", "heart-beats", code=1)
