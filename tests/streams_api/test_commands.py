"""`odradek streams`: run, describe and reset."""

from __future__ import annotations

import json
import sys

import pytest
from tests.cli.conftest import invoke
from tests.streams_api.test_process import bootstrap, say, totals
from tests.support.child import Child

from odradek.client import Admin

__all__ = ["bootstrap"]

WORDS = """
from odradek.streams import App

app = App("word-count")
counts = (
    app.stream("lines", value=str)
    .flat_map_values(lambda line: line.lower().split())
    .group_by(lambda word: word)
    .count(store="counts")
)
counts.to_stream().to("word-counts")
"""


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return str(path)


def test_the_topology_is_shown(words):
    result = invoke("streams", "describe", words)
    assert result.code == 0
    assert "Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])" in result.out


def test_a_file_without_application_is_refused(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    result = invoke("streams", "describe", str(path))
    assert result.code == 1
    assert "must have one App, or one with the name app; it has none" in result.err


def test_an_application_runs_and_is_reset(bootstrap, words):
    say(bootstrap, "to be or not to be")
    wanted = {"to": 2, "be": 2, "or": 1, "not": 1}
    command = [sys.executable, "-m", "odradek", "streams", "run", words, "-b", bootstrap]
    with Child([*command, "--commit-interval-ms", "50"]) as running:
        assert totals(bootstrap, wanted) == wanted
        assert running.terminate() == 0
    shown = invoke("streams", "reset", words, "-b", bootstrap, "--json")
    topics = ["word-count-counts-changelog", "word-count-counts-repartition"]
    assert json.loads(shown.out) == {"topics": topics, "group": True, "executed": False}
    assert invoke("streams", "reset", words, "-b", bootstrap, "--execute").code == 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert not {each.name for each in admin.list_topics()} & set(topics)
        assert admin.list_groups() == []
