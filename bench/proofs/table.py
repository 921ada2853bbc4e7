"""The table of stored proofs in docs/compatibility.md, which `python -m bench.tables` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.proofs.catalogue import PROOFS

RESULTS = Path(__file__).parent / "results"


def proofs_table() -> str:
    """The last stored outcome of each proof, as Markdown."""
    lines = ["| proof | size | outcome | time | commit |", "| --- | --- | --- | --- | --- |"]
    for proof in PROOFS:
        outcome = _last(proof.name)
        if outcome is None:
            lines.append(f"| `{proof.name}` | {proof.count} {proof.what} | not stored | – | – |")
            continue
        size = f"{outcome['count']:,}".replace(",", " ") + f" {outcome['what']}"
        link = f"[{outcome['commit']}](../bench/proofs/results/{proof.name}.jsonl)"
        time = f"{max(1, round(outcome['seconds'] / 60))} min"
        lines.append(f"| `{proof.name}` | {size} | {outcome['outcome']} | {time} | {link} |")
    return "\n".join(lines) + "\n"


def _last(name: str) -> Mapping[str, Any] | None:
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    return found
