"""The pipelines of `examples/` reconcile, on a part of their data, in the session of the tests.

`test_examples.py` runs another pipeline as a command.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from examples.activity import __main__ as activity
from examples.commitlog import __main__ as commitlog
from examples.logs import __main__ as logs
from examples.metrics import __main__ as metrics
from examples.metrics import queries as metric_queries
from examples.stages import __main__ as stages
from examples.stages import queries as stage_queries
from examples.suggestions import __main__ as suggestions
from examples.suggestions import queries as suggestion_queries
from pyspark.sql import functions as sf
from rich.console import Console

from odradek.client.admin.topics import delete_topics, list_topics
from odradek.pipelines import scaffold
from odradek.pipelines.arguments import Parser
from odradek.pipelines.catalogue import load, parse
from odradek.pipelines.places import Places, show

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("transactions"),
]


@pytest.mark.parametrize(
    ("pipeline", "words", "shown"),
    [
        (stages, ["--flights", "1500"], "flights counted in flights.daily"),
        (activity, ["--flights", "800"], "punctual, in the funnel"),
        (commitlog, ["--flights", "2500"], "rows of the rebuilt table that differ"),
        (suggestions, [], "users with suggestions"),
    ],
    ids=["stages", "activity", "commitlog", "suggestions"],
)
def test_what_went_in_came_out(spark, servers, tmp_path, pipeline, words, shown):
    console = Console(file=io.StringIO(), width=200)
    places = Places(spark, servers, tmp_path / "output")
    parser = Parser()
    pipeline.add_arguments(parser)
    lines = pipeline.run(console, places, parser.parse_args(words))
    code = show(console, lines)
    assert code == 0, console.file.getvalue()
    assert shown in console.file.getvalue()


def all_on_time():
    return sf.lit("on time")


def without_the_last(ratings):
    return find_pairs(ratings.where("film <> 3"))


def by_largest(samples):
    return find_windows(samples).withColumn("mean", sf.col("max") + 1)


find_pairs, find_windows = suggestion_queries.pairs, metric_queries.windows


@pytest.mark.parametrize(
    ("pipeline", "words", "module", "name", "bug", "seen"),
    [
        (
            *(stages, ["--flights", "1500"], stage_queries, "status", all_on_time),
            "rows of flights.daily that differ from DuckDB's",
        ),
        (suggestions, [], suggestion_queries, "pairs", without_the_last, "pairs of films"),
        (
            *(metrics, ["--seconds", "1"], metric_queries, "windows", by_largest),
            "windows that differ from DuckDB's",
        ),
    ],
    ids=["no flight is late", "a film is left out", "the mean is wrong"],
)
def test_a_bug_in_the_stream_is_seen(
    spark, servers, tmp_path, monkeypatch, pipeline, words, module, name, bug, seen
):
    monkeypatch.setattr(module, name, bug)
    parser = Parser()
    pipeline.add_arguments(parser)
    places = Places(spark, servers, tmp_path / "output")
    lines = pipeline.run(Console(file=io.StringIO()), places, parser.parse_args(words))
    assert seen in {what for what, expected, found in lines if expected != found}, lines


def run_logs(spark, servers, directory, *given: Path) -> tuple[str, list, Path]:
    """What the pipeline prints, what it reconciles, and the directory of the lake."""
    console = Console(file=io.StringIO(), width=200)
    places = Places(spark, servers, directory / "output")
    options = argparse.Namespace(input=[*given], search="error", follow=False)
    lines = logs.run(console, places, options)
    assert show(console, lines) == 0, console.file.getvalue()
    return console.file.getvalue(), lines, directory / "output" / "lake"


@pytest.fixture(autouse=True)
def no_topics_are_left(cluster):
    """Deletes the topics that a test has made: pipelines use no topics of others."""
    before = {each.name for each in list_topics(cluster)}
    yield
    delete_topics(cluster, {each.name for each in list_topics(cluster)} - before)


def test_logs_of_all_kinds_are_read_or_listed(spark, servers, tmp_path):
    given = tmp_path / "logs"
    (given / "deep").mkdir(parents=True)
    (given / "dpkg.log").write_bytes(b"2026-11-01 10:00:00 status x\n2026-11-02 Error: no\n")
    (given / "deep" / "app").write_bytes(b"2026-11-02T10:00:01 ERROR a\0b\n  at a line\nunfinished")
    (given / "web").write_bytes(
        b'::1 - - [10/Oct/2000:13:55:36 -0700] "GET /caf\xc3\xa9\xff" 200\n'
    )
    (given / "old.gz").write_bytes(gzip.compress(b"one\n2026-13-45 10:00:00 \xc3\xa9error_\n"))
    (given / "old.zst").write_bytes(pa.compress(b"two\n\n", "zstd", asbytes=True))
    (given / "long").write_bytes(b"x" * 1_000_000 + b"\nshort\n")
    (given / "cut.gz").write_bytes(gzip.compress(b"three\n" * 1000)[:30])
    (given / "binary").write_bytes(b"\0\n" * 10)
    shown, lines, lake = run_logs(spark, servers, tmp_path, given)
    assert "11 lines of 6 files are in the topic" in shown
    assert f"{given / 'binary'}: 10 lines are skipped: it is not text" in shown
    assert f"{given / 'long'}: line 1 is no row: it is too long" in shown
    assert f"{given / 'cut.gz'}: an unknown number of lines are skipped: it is damaged" in shown
    assert (str(given / "deep" / "app"), 3, 3) in lines
    assert ("all lines that were given", 22, 22) in lines
    days = {each.name for each in lake.iterdir() if each.name.startswith("day=")}
    dated = {"day=2000-10-10", "day=2026-11-01", "day=2026-11-02"}
    assert days == {*dated, "day=undated"}


def test_logs_with_a_date_in_each_line(spark, servers, tmp_path):
    file = tmp_path / "app.log"
    file.write_text(
        "2026-11-28 01:00:00 ERROR a\n2026-11-28 01:00:00 INFO b\nNov  2 03:04:05 x: c\n"
    )
    os.utime(file, (1_782_864_000, 1_782_864_000))  # 2026-07-01
    shown, lines, lake = run_logs(spark, servers, tmp_path, file)
    assert "2026-11-28" in shown
    assert lines[0] == (str(file), 3, 3)
    assert (lake / "day=2025-11-02").is_dir()


def test_a_difference_is_shown():
    console = Console(file=io.StringIO(), width=200)
    assert show(console, [("records", 3, 3), ("rows", 0, 1)]) == 1


def test_a_new_pipeline(spark, servers, tmp_path):
    made = scaffold.create("new_words", tmp_path)
    file = tmp_path / "text.gz"
    file.write_bytes(gzip.compress(b"to be or not\n\nto be"))
    found = load(str(made[0]))
    options = parse(found, Parser(), ["--input", str(file)])
    console = Console(file=io.StringIO(), width=200)
    places = Places(spark, servers, tmp_path / "output")
    for _ in range(2):  # the second time nothing is left to do
        assert found.run(console, places, options) == [("lines", 3, 3), ("words", 6, 6)]
    assert "2 be" in console.file.getvalue()


def test_the_first_pipeline_of_the_documentation(spark, servers, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "first-pipeline.md").read_text(encoding="utf-8")
    pipeline, test = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "sales.py").write_text(pipeline)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"__name__": "test_sales"}
    exec(test, names)
    names["test_the_query"](spark)
    broker = argparse.Namespace(bootstrap_servers=servers)
    names["test_the_pipeline"](spark, broker, tmp_path)


def test_the_pipeline_of_the_documentation(spark, servers, tmp_path):
    text = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {"__name__": "words"}
    exec(code, names)
    file = tmp_path / "text"
    file.write_text("to be or not\n\nto be  that\n")
    console = Console(file=io.StringIO(), width=200)
    places = Places(spark, servers, tmp_path / "output")
    lines = names["run"](console, places, argparse.Namespace(file=str(file)))
    assert lines == [("lines", 3, 3), ("words", 9, 9)]
    assert "2 be" in console.file.getvalue()
