"""The simulated cluster finds bugs that are planted into its nodes.

Only some of the bugs are tested here, which almost every seed finds. `make proofs` runs the whole list
(`cluster-planted-bugs`).
"""

from __future__ import annotations

import pytest
from bench.proofs.catalogue import BY_NAME
from compat.lab.toolchain import ROOT

from odradek.records.compiled import COMPILED

from .planted import search
from .planted_bugs import BUGS


@pytest.mark.cluster
@pytest.mark.skipif(COMPILED, reason="methods of a compiled class cannot be replaced")
@pytest.mark.parametrize(
    "name",
    [
        "the high watermark advances early",
        "leaders are elected outside the ISR",
        "a snapshot lacks the producer ids",
        "the last stable offset follows the newest transaction",
        "a new leader does not read the state of share groups",
        "locks of records are ignored",
    ],
)
def test_a_planted_bug_is_found(name) -> None:
    assert search(name).seed


def test_the_whole_list_is_a_long_test_and_is_documented() -> None:
    assert BY_NAME["cluster-planted-bugs"]
    assert len(BUGS) >= 15
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")]
    documented = {name.strip(): limit.strip() for name, limit in rows}
    for name, bug in BUGS.items():
        assert documented.get(name) == str(bug.seeds), name
