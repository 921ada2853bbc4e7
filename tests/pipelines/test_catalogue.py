"""Pipelines are found by name, file and module, and errors say what to do."""

from __future__ import annotations

import argparse
import sys

import pytest
from tests.checkout import needs_checkout

from odradek.pipelines import catalogue
from odradek.pipelines.catalogue import NoSuchPipelineError, NotAPipelineError, load, parse

WORDS = """
def add_arguments(parser):
    parser.add_argument("--size", type=int, default=1)

def check(options):
    if options.size < 1:
        raise ValueError("--size must be positive")

def run(console, places, options):
    return [("size", 1, options.size)]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory, in which nothing else is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_examples():
    found = catalogue.examples()
    assert sorted(found) == ["activity", "commitlog", "logs", "metrics", "stages", "suggestions"]
    assert found["stages"] == "Flights go through topics in stages: raw, enriched, by day"


@pytest.mark.parametrize("name", ["jobs/words_a.py", "jobs.words_a"])
def test_a_file_and_a_module(here, name):
    (here / "jobs").mkdir()
    (here / "jobs" / "words_a.py").write_text(WORDS)
    found = load(name)
    assert (found.name, found.is_example) == ("words_a", False)
    parsed = parse(found, argparse.ArgumentParser(), ["--size", "3"])
    assert found.run(None, None, parsed) == [("size", 1, 3)]


def test_wrong_options(here, capsys):
    (here / "words_b.py").write_text(WORDS)
    with pytest.raises(SystemExit) as ended:
        parse(load("words_b.py"), argparse.ArgumentParser(), ["--size", "0"])
    assert ended.value.code == 2
    assert "--size must be positive" in capsys.readouterr().err


def test_a_module_without_the_function(here):
    (here / "words_c.py").write_text("x = 1\n")
    with pytest.raises(NotAPipelineError, match="no function run"):
        load("words_c.py")


def test_a_module_that_needs_another_one(here):
    (here / "words_d.py").write_text("import no_such_package_d\n")
    for name in ("words_d.py", "words_d"):
        with pytest.raises(NotAPipelineError, match="needs no_such_package_d"):
            load(name)


def test_the_advice_has_all_extras_of_the_examples(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "deltalake", None)
    for name in [each for each in sys.modules if each.startswith("examples.activity")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(NotAPipelineError, match=r"needs deltalake, .*'odradek\[demo,delta\]'"):
        load("activity")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        pytest.param("stage", "Did you mean stages?", marks=needs_checkout),
        pytest.param("xyz", "there are activity, commitlog", marks=needs_checkout),
        ("no/such.py", "there is no file"),
        ("no_such_package.words", "give a file"),
        ("not a name", "give a file"),
    ],
)
def test_unknown_names(here, name, advice):
    with pytest.raises(NoSuchPipelineError, match=advice.replace("?", r"\?")):
        load(name)


def test_without_a_clone(here, monkeypatch):
    monkeypatch.setattr(catalogue.odradek, "__file__", str(here / "a" / "b" / "c" / "d.py"))
    assert catalogue.examples() == {}
    with pytest.raises(NoSuchPipelineError, match="in a clone"):
        load("stages")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def run(", r"was never closed \(.*words_e.py, line 1\)"),
        ("\n1 / 0", r"ZeroDivisionError: .*words_e.py, line 2\)"),
    ],
)
def test_a_module_that_cannot_be_loaded(here, text, reason):
    (here / "words_e.py").write_text(text)
    for name in ("words_e.py", "words_e"):
        with pytest.raises(NotAPipelineError, match=reason):
            load(name)
