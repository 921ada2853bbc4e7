"""`odradek format` and `odradek demo`: commands that call other packages."""

from __future__ import annotations

import importlib.util

import pytest
from tests.cli.conftest import invoke

from odradek.config.properties import parse_properties

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def properties(directory):
    return parse_properties((directory / "meta.properties").read_bytes())


def test_a_new_directory(tmp_path):
    data = tmp_path / "data"
    outcome = invoke("format", "--data", data, "--cluster-id", CLUSTER_ID, "--node-id", 7)
    assert outcome.code == 0
    assert outcome.lines[-1] == f"Cluster {CLUSTER_ID}, node 7"
    written = properties(data)
    assert (written["cluster.id"], written["node.id"]) == (CLUSTER_ID, "7")
    assert written["directory.id"] in outcome.out
    assert (data / "bootstrap.checkpoint").exists()


def test_a_formatted_directory(tmp_path):
    assert invoke("format", "--data", tmp_path).code == 0
    cluster_id = properties(tmp_path)["cluster.id"]
    again = invoke("format", "--data", tmp_path)
    assert again.code == 1
    assert f"is formatted already, for cluster {cluster_id}" in again.err
    ignored = invoke("format", "--data", tmp_path, "--ignore-formatted")
    assert (ignored.code, ignored.out) == (0, f"Formatted already, for cluster {cluster_id}\n")
    assert properties(tmp_path)["cluster.id"] == cluster_id


def test_a_configuration_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=3\nlog.dirs={tmp_path}/a,{tmp_path}/b\nlog.dir.no.such=1\n")
    outcome = invoke("format", "--config", file, "--override", "node.id=4")
    assert outcome.code == 0
    assert "log.dir.no.such has no effect" in outcome.err
    assert properties(tmp_path / "a")["node.id"] == properties(tmp_path / "b")["node.id"] == "4"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cluster-id", "short"], 1, "is not a cluster id"),
        (["--override", "x"], 2, "write NAME=VALUE"),
        (["--override", "node.id=x"], 2, "node.id"),
        (["--config", "/no/such/file"], 2, "cannot read /no/such/file"),
    ],
)
def test_refusals(tmp_path, words, code, said):
    outcome = invoke("format", "--data", tmp_path / "data", *words)
    assert outcome.code == code
    assert said in outcome.err
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_the_demo_says_what_it_needs(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find_spec(name)
    )
    outcome = invoke("demo")
    assert outcome.code == 1
    assert outcome.err == "Error: the demo needs pyspark: pip install 'odradek[demo]'\n"
