"""`odradek streams`: run, describe and reset."""

from __future__ import annotations

import json
import re
import sys
import time
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import invoke
from tests.streams_api.test_process import PATIENCE_SECONDS, bootstrap, say
from tests.support.child import Child
from tests.tidy.sources import ROOT

from odradek.client import Admin, Consumer

__all__ = ["bootstrap"]

EXAMPLE = ROOT / "examples" / "streams" / "words.py"


@pytest.fixture
def words():
    return str(EXAMPLE)


def test_the_documents_show_the_example():
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "streams.md").read_text(), re.DOTALL
    )
    assert blocks[0] == EXAMPLE.read_text()
    program = {}
    exec(blocks[0].replace("__main__", "never"), program)
    exec(blocks[1], program)


def test_the_topology_is_shown(words):
    result = invoke("streams", "describe", words)
    assert result.code == 0
    assert "Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])" in result.out


def test_the_topology_is_drawn(words, tmp_path):
    path = tmp_path / "words.svg"
    assert invoke("streams", "describe", words, "--svg", str(path)).code == 0
    drawn = ElementTree.parse(path).getroot()
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Sub-topology 0: a task, in Python, for each partition of lines"
    shown = re.findall(
        r"(?:Source|Processor|Sink): (\S+)", invoke("streams", "describe", words).out
    )
    topics = ["lines", "word-counts"] + ["word-count-counts-repartition"] * 2
    titles = [each for each in texts if each.startswith("Sub-topology")]
    assert sorted(texts) == sorted([*shown, *topics, *titles, "counts"])


def test_a_file_without_application_is_refused(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    result = invoke("streams", "describe", str(path))
    assert result.code == 1
    assert "must have one App, or one with the name app; it has none" in result.err


def counts(bootstrap, wanted):
    """Read the output until it is as wanted; return it."""
    found = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([("word-counts", partition, 0) for partition in range(2)])
        while found != wanted and time.monotonic() < deadline:
            found.update((each.key, each.value) for each in consumer.poll(0.2) or ())
    return found


def test_an_application_runs_and_is_reset(bootstrap, words):
    say(bootstrap, "to be or not to be")
    wanted = {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}
    command = [sys.executable, "-m", "odradek", "streams", "run", words, "-b", bootstrap]
    with Child([*command, "--commit-interval-ms", "50"]) as running:
        assert counts(bootstrap, wanted) == wanted
        assert running.terminate() == 0
    shown = invoke("streams", "reset", words, "-b", bootstrap, "--json")
    topics = ["word-count-counts-changelog", "word-count-counts-repartition"]
    assert json.loads(shown.out) == {"topics": topics, "group": True, "executed": False}
    assert invoke("streams", "reset", words, "-b", bootstrap, "--execute").code == 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert not {each.name for each in admin.list_topics()} & set(topics)
        assert admin.list_groups() == []
