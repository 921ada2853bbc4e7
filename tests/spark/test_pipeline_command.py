"""`odradek pipeline run`: an example, a pipeline that is stopped and continues, and one that fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.child import ODRADEK, Child

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
WORDS = """
from pyspark.sql import functions as sf

def add_arguments(parser):
    parser.add_argument("text")

def run(console, places, options):
    places.create("lines", "words")
    places.send("lines", [("key", '{"text": "%s"}' % options.text)])
    lines = places.stream("lines", "text STRING", group="words")
    places.write(lines, "words", "text", to_the_end=False)
"""
FAILING = """
from pyspark.sql import functions as sf

def run(console, places, options):
    places.create("lines")
    places.send("lines", [("key", "value")])
    broken = sf.raise_error(sf.lit("this value is bad"))
    lines = places.stream("lines").select(broken.cast("string").alias("value"))
    places.write(lines, "words", sf.lit(1), to_the_end=False)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    state = str(tmp_path / "state")
    return {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": state, "COLUMNS": "200"}


def words(*arguments: str) -> list[str]:
    return [*ODRADEK, "pipeline", *arguments]


def running(environment, directory, *arguments) -> Child:
    command = words("run", *arguments, "--json")
    return Child(command, directory=directory, environment=environment, talks=True)


def events(process: Child) -> Iterator[dict]:
    return map(json.loads, process.lines())


def status(environment) -> list[dict]:
    done = subprocess.run(
        words("status", "--json"), env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_pipeline_is_stopped_and_continues(tmp_path, environment, kind):
    (tmp_path / "words.py").write_text(WORDS)
    for number, text in enumerate(("one", "two")):
        with running(environment, tmp_path, "words.py", text) as process:
            found = events(process)
            assert next(found)["event"] == "started"
            batch = next(found)
            assert (batch["event"], batch["query"]) == ("batch", "words")
            assert (batch["batch"], batch["rows"], batch["lag"]) == (number, 1, 0)
            (run,) = status(environment)
            (query,) = run["queries"]
            assert (run["state"], query["groups"], query["is_active"]) == (
                "running",
                ["words"],
                True,
            )
            assert Path(query["checkpoint"]) == tmp_path / "words-output" / "checkpoints" / "words"
            process.signal(kind)
            process.stdout.read()
            code, errors = process.wait(), process.output
        if kind == signal.SIGKILL:
            assert [each["state"] for each in status(environment)] == ["killed"]
        else:
            assert code == 130, errors
            assert "Traceback" not in errors
            assert status(environment) == []


def test_a_query_that_fails(tmp_path, environment):
    (tmp_path / "failing.py").write_text(FAILING)
    with running(environment, tmp_path, "failing.py") as process:
        *_, last = events(process)
        assert process.wait() == 1
    assert last["event"] == "failed"
    assert "this value is bad" in last["error"].splitlines()[0]
    assert len(last["error"].splitlines()) <= 6, last["error"]
    assert "Traceback" not in last["error"]
    assert [each["state"] for each in status(environment)] == ["failed"]


def test_an_example(tmp_path, environment):
    with running(environment, tmp_path, "stages", "--flights", "1500") as process:
        found = list(events(process))
        assert process.wait() == 0, found
    assert {each["query"] for each in found if each["event"] == "batch"} == {
        "flights.enriched",
        "flights.daily",
    }
    lines = found[-1]["lines"]
    assert len(lines) == 5
    assert all(each["expected"] == each["found"] for each in lines)
    again = subprocess.run(
        words("run", "stages"), cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert again.returncode == 1
    assert re.search("stages-output exists.*--output", again.stderr)
