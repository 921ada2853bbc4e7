"""The pipelines of `examples/` reconcile, on a part of their data, in the session of the tests.

`test_examples.py` runs two other pipelines as commands.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

import pytest
from examples.activity import __main__ as activity
from examples.commitlog import __main__ as commitlog
from examples.stages import __main__ as stages
from examples.suggestions import __main__ as suggestions
from rich.console import Console

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
    ("run", "flights", "shown"),
    [
        (stages.run, 1500, "flights counted in flights.daily"),
        (activity.run, 800, "punctual, in the funnel"),
        (commitlog.run, 2500, "rows of the rebuilt table that differ"),
        (suggestions.run, None, "users with suggestions"),
    ],
    ids=["stages", "activity", "commitlog", "suggestions"],
)
def test_what_went_in_came_out(spark, servers, tmp_path, run, flights, shown):
    console = Console(file=io.StringIO(), width=200)
    places = Places(spark, servers, tmp_path / "output")
    lines = run(console, places, argparse.Namespace(flights=flights))
    code = show(console, lines)
    assert code == 0, console.file.getvalue()
    assert shown in console.file.getvalue()


def test_a_difference_is_shown():
    console = Console(file=io.StringIO(), width=200)
    assert show(console, [("records", 3, 3), ("rows", 0, 1)]) == 1


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
