"""Compares the outcomes of invalid input with recorded outcomes of Apache Kafka.

With ODRADEK_VICTIM=apache the tests send their input to Apache Kafka and store the outcomes in
`recorded/`. Otherwise they send it to an Odradek node, and each outcome must equal the stored one.
`deviations.py` lists the intended differences: the case, both outcomes and the reason.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

from compat.lab.maven import KAFKA_VERSION
from tests.bad_input.deviations import DEVIATIONS, Deviation

from odradek.model.errors import ErrorCode

AGAINST_APACHE = os.environ.get("ODRADEK_VICTIM") == "apache"
DIRECTORY = Path(__file__).with_name("recorded")
SHOWN_MAX = 30

CLOSED = "connection closed"
WAITS = "no answer"
ANSWERED = "answered"


def error_name(code: int) -> str:
    """Return the outcome of a request whose response has one error code."""
    return ErrorCode(code).name  # type: ignore[call-arg]


def check(name: str, case: str, outcome: str) -> None:
    """Store or compare the outcome of one case of the test file `name`."""
    if AGAINST_APACHE:
        store(name, {**load(name), case: outcome})
        return
    assert case in load(name), f"{name}: {case} is not recorded: record it"
    compare(name, [(case, load(name)[case], outcome)])


def check_part(name: str, part: str, outcomes: Sequence[tuple[str, str]]) -> None:
    """Store or compare the outcomes of many cases. Consecutive equal outcomes are stored together.

    `outcomes` has each case and its outcome, in the order of the requests.
    """
    if AGAINST_APACHE:
        runs = []
        for outcome, same in groupby(outcomes, lambda each: each[1]):
            cases = [case for case, _ in same]
            runs.append([cases[0], len(cases), outcome])
        store(name, {**load(name), part: runs})
        return
    theirs = [outcome for _, count, outcome in load(name)[part] for _ in range(count)]
    assert len(theirs) == len(outcomes), f"{name}: {part} has other cases: record it again"
    compare(
        name,
        [
            (f"{part}: {case}", recorded, outcome)
            for (case, outcome), recorded in zip(outcomes, theirs, strict=True)
        ],
    )


def compare(name: str, triples: Sequence[tuple[str, str, str]]) -> None:
    """Check that the outcomes are equal, or are those of a deviation.

    Each triple has a case, Apache Kafka's outcome and Odradek's outcome.
    """
    deviations = [
        each
        for each in DEVIATIONS
        if each.file == name and any(fnmatchcase(case, each.cases) for case, _, _ in triples)
    ]
    met: Counter[Deviation] = Counter()
    wrong = []
    for case, theirs, ours in triples:
        if theirs == ours:
            continue
        deviation = next((each for each in deviations if each.allows(case, theirs, ours)), None)
        if deviation is None:
            wrong.append(f"{case}: {ours}, but {theirs} from Apache Kafka")
        else:
            met[deviation] += 1
    shown = "\n".join(wrong[:SHOWN_MAX])
    assert not wrong, f"{name}: {len(wrong)} of {len(triples)} cases differ:\n{shown}"
    counts = [f"{each} was met {met[each]} times" for each in deviations if met[each] != each.count]
    assert not counts, "\n".join(counts)


def load(name: str) -> dict[str, Any]:
    """Return the stored outcomes of a test file, by case or by part."""
    path = DIRECTORY / f"{name}.json"
    if AGAINST_APACHE and not path.exists():
        return {}
    outcomes: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["outcomes"]
    return outcomes


def store(name: str, outcomes: Mapping[str, Any]) -> None:
    """Replace the stored outcomes of a test file."""
    DIRECTORY.mkdir(exist_ok=True)
    lines = [
        f"  {json.dumps(case)}: {_rendered(outcome)}" for case, outcome in sorted(outcomes.items())
    ]
    command = f"ODRADEK_VICTIM=apache python -m pytest tests/bad_input -k {name}"
    text = (
        f'{{"broker": "Apache Kafka {KAFKA_VERSION}",\n "command": {json.dumps(command)},\n'
        ' "outcomes": {\n' + ",\n".join(lines) + "\n}}\n"
    )
    (DIRECTORY / f"{name}.json").write_text(text, encoding="utf-8")


def _rendered(outcome: Any) -> str:
    """Return JSON with each element on a separate line."""
    if isinstance(outcome, list):
        return "[\n" + ",\n".join(f"    {json.dumps(each)}" for each in outcome) + "]"
    if isinstance(outcome, dict):
        lines = (f"    {json.dumps(case)}: {json.dumps(outcome[case])}" for case in sorted(outcome))
        return "{\n" + ",\n".join(lines) + "}"
    return json.dumps(outcome)
