"""The table of the long tests in docs/compatibility.md, which `python -m bench.tables` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.proofs.catalogue import LONG_TESTS

RESULTS = Path(__file__).parent / "results"


def long_tests_table() -> str:
    """Return the last stored result of each long test, as Markdown.

    Long tests without a stored result are omitted.
    """
    lines = ["| long test | size | outcome | time | result |", "| --- | --- | --- | --- | --- |"]
    for test in LONG_TESTS:
        result = last_result(test.name)
        if result is None:
            continue
        link = f"[{result['commit']}](../bench/proofs/results/{test.name}.jsonl)"
        time = f"{max(1, round(result['seconds'] / 60))} min"
        cells = [f"`{test.name}`", test.text(result["count"]), result["outcome"], time, link]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def last_result(name: str) -> Mapping[str, Any] | None:
    """Return the last stored result of a long test, or None."""
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    return found
