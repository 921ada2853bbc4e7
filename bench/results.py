"""Stores the results of a run in a file of JSON lines, with one line for each figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, table
from bench.machine import commit

RESULTS = Path(__file__).parent / "results"
WITHOUT_PURE_LIMIT = {"varied", "clients"}
"""Benches with records of varied sizes."""
LOCAL = RESULTS / "local"
"""The directory of the results of quick runs and trials. These results are not committed."""


def conclude(
    figures: Sequence[Figure],
    names: dict[str, str],
    machine: Mapping[str, object],
    setup: Mapping[str, object],
    more: Sequence[Mapping[str, object]] = (),
    *,
    is_trial: bool,
    output: Path | None = None,
) -> int:
    """Print the table, and store the results. Return 1 if a limit is missed, and 0 otherwise.

    `names` has the broker's name by role. `machine` and `setup` are the first stored lines, and
    `more` has the last ones. A build that is not compiled has other limits (see `with_limits_of`).
    """
    figures = with_limits_of(setup, figures)
    print(f"\n{table(figures, names)}")
    path = store(figures, machine, setup, more, is_trial=is_trial, output=output)
    print(f"\nstored in {path.name}")
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


def store(
    figures: Sequence[Figure],
    machine: Mapping[str, object],
    setup: Mapping[str, object],
    more: Sequence[Mapping[str, object]] = (),
    *,
    is_trial: bool,
    output: Path | None = None,
) -> Path:
    """Store the results so far in place of those that the same run has stored. Return the path."""
    figures = with_limits_of(setup, figures)
    path = output or _result_path(str(machine["time"]), is_trial=is_trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [machine, setup, *(figure.as_json() for figure in figures), *more]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return path


def with_limits_of(setup: Mapping[str, object], figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures with the limits of the measured build, which `setup` describes.

    For a pure build all limits of ratios are 1. Experiments with records of varied sizes have no
    limit for a pure build, because it validates such records one by one in an interpreted loop.
    """
    ours = setup.get("ours")
    if not isinstance(ours, Mapping) or ours.get("build") != "pure":
        return list(figures)
    found = []
    for figure in figures:
        quantity = figure.quantity.for_pure_build()
        if figure.bench in WITHOUT_PURE_LIMIT:
            quantity = replace(quantity, limit=None)
        found.append(replace(figure, quantity=quantity))
    return found


def _result_path(time: str, *, is_trial: bool) -> Path:
    stamp = time[:16].replace(":", "").replace("-", "").replace("T", "-")
    directory = LOCAL if is_trial else RESULTS
    return directory / f"{stamp}-{commit().rstrip('+')}.jsonl"
