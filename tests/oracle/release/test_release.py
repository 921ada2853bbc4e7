"""Schemas, features, settings, metrics and commands of Apache Kafka 4.4.0, item by item."""

from __future__ import annotations

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.release import comparison, deviations
from tests.oracle.release.deviations import DEVIATIONS, DOCUMENT

JAVA = {"schemas", "settings"}


@pytest.mark.parametrize(
    "area",
    [
        pytest.param(each, marks=pytest.mark.java) if each in JAVA else each
        for each in comparison.AREAS
    ],
)
def test_every_difference_is_listed_with_a_reason(area: str) -> None:
    try:
        found = comparison.AREAS[area]()
    except Missing as reason:
        pytest.skip(str(reason))
    rows = [each for each in DEVIATIONS if each.area == area]
    unlisted = [item for item in sorted(found) if not any(row.matches(item) for row in rows)]
    assert unlisted == []
    for row in rows:
        for pattern in row.patterns:
            one = row._replace(patterns=(pattern,))
            assert any(map(one.matches, found)), f"nothing differs as in {pattern}"


def test_the_document_has_the_same_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert deviations.written(text) == text
