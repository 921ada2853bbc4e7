"""The tables in docs/benchmarks.md and docs/compatibility.md match the stored results."""

from __future__ import annotations

import pytest
from bench.measures import MEASURES
from bench.tables import (
    DOCUMENT,
    LONG_TESTS_DOCUMENT,
    PURE_PREFIX,
    ROWS,
    Result,
    costs,
    documents,
    replaced,
    shown,
)


@pytest.mark.parametrize("path", [DOCUMENT, LONG_TESTS_DOCUMENT], ids=lambda path: path.stem)
def test_the_tables_are_those_of_the_stored_results(path) -> None:
    assert path.read_text(encoding="utf-8") == documents()[path], "run: python -m bench.tables"


def test_a_changed_figure_is_seen() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = costs(shown())
    planted = text.replace(table, table.replace("0", "9"))
    assert planted != text
    assert replaced(planted, "costs", table) == text


def test_no_quick_result_is_shown_and_each_has_what_it_is_shown_for() -> None:
    for bench, name in shown().items():
        result = Result(name)
        assert not result.setup.get("quick"), name
        assert bench.removeprefix(PURE_PREFIX) in result.benches(), name
        assert not result.machine["commit"].endswith("+"), f"{name} is of no commit"


def test_the_rows_name_benches_that_exist() -> None:
    of_other_programs = {row.bench for row in ROWS if row.command}
    assert {row.bench for row in ROWS} - of_other_programs <= set(MEASURES)
