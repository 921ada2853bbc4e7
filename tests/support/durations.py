"""How long the tests of the last stored run took, and how much processor time they used.

`python -m pytest --store-durations` writes the file `tests/durations.json`: of each group of tests that
ran (`tests.support.scheduling`) the duration and the processor time, in seconds, and of each test of
ten seconds or more the duration without its fixtures. The groups that did not run keep their figures. The scheduler reads
the file to decide which groups begin first and which run at the same time. A test that takes more
than `SLOW_SECONDS` in the stored run has to give its reason: `@pytest.mark.slow("why")`
(`tests/tidy/test_durations.py`).

The processor time of a test is that of the worker and of the processes that it started and waited
for, from the end of the test before to the end of this test.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(__file__).parents[1] / "durations.json"
SLOW_SECONDS = 10.0
"""A test that takes longer gives its reason."""


class Cost(NamedTuple):
    """What a group of tests takes."""

    seconds: float
    processor_seconds: float

    @property
    def load(self) -> float:
        """The number of processors that the group keeps busy, on average."""
        return self.processor_seconds / max(self.seconds, 0.001)


LOAD_MAX = 1.5
"""The mean number of running processes before a run whose durations are stored."""
UNKNOWN = Cost(2.0, 1.0)
"""The assumed cost of a group that the stored run did not have."""


@dataclass
class Durations:
    """The content of the file."""

    groups: dict[str, Cost] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    """The tests of `SLOW_SECONDS` or more, by id."""

    def of(self, group: str) -> Cost:
        """Return the cost of a group."""
        return self.groups.get(group, UNKNOWN)


def stored() -> Durations:
    """Return the stored durations. There are none if the file does not exist."""
    if not FILE.exists():
        return Durations()
    content = json.loads(FILE.read_text(encoding="utf-8"))
    groups = {name: Cost(*figures) for name, figures in content["groups"].items()}
    return Durations(groups, content["slow"])


def check_idle() -> None:
    """Check that nothing else uses the machine: the tests would seem to be slow.

    Raises:
        UsageError: in the last minute, more than one process ran on average.
    """
    load = os.getloadavg()[0]
    if load > LOAD_MAX:
        raise pytest.UsageError(
            f"the machine is busy ({load:.1f} processes): try again when it is idle"
        )


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Run:
    """Adds up what the tests of a run take."""

    def __init__(self) -> None:
        self.tests: dict[str, Cost] = {}
        self.calls: dict[str, float] = {}
        """The duration of each test without its fixtures, which other tests may share."""

    def add(self, nodeid: str, phase: str, seconds: float, processor_seconds: float) -> None:
        """Add one phase of a test: setup, call or teardown."""
        if phase == "call":
            self.calls[nodeid] = seconds
        before = self.tests.get(nodeid, Cost(0.0, 0.0))
        total = Cost(before.seconds + seconds, before.processor_seconds + processor_seconds)
        self.tests[nodeid] = total

    def slowest(self, count: int) -> list[tuple[str, Cost]]:
        """Return the tests that took longest, in descending order."""
        return sorted(self.tests.items(), key=lambda each: -each[1].seconds)[:count]

    def total(self) -> Cost:
        """Return the sums of all tests."""
        return _sum(self.tests.values())

    def store(self, group: Callable[[str], str], before: Durations, path: Path = FILE) -> None:
        """Write the file. Groups that did not run keep their figures of `before`."""
        by_group: dict[str, list[Cost]] = {}
        for nodeid, cost in self.tests.items():
            by_group.setdefault(group(nodeid), []).append(cost)
        groups = {**before.groups, **{name: _sum(costs) for name, costs in by_group.items()}}
        slow = {name: value for name, value in before.slow.items() if group(name) not in by_group}
        slow |= {name: value for name, value in self.calls.items() if value >= SLOW_SECONDS}
        path.write_text(_text(groups, slow), encoding="utf-8")


def _sum(costs: Iterable[Cost]) -> Cost:
    seconds = processor_seconds = 0.0
    for cost in costs:
        seconds += cost.seconds
        processor_seconds += cost.processor_seconds
    return Cost(seconds, processor_seconds)


def _text(groups: Mapping[str, Cost], slow: Mapping[str, float]) -> str:
    """Return the file's text. Each group and each test has a line, so that changes can be merged."""
    lines = [
        f"    {json.dumps(name)}: [{cost.seconds:.1f}, {cost.processor_seconds:.1f}]"
        for name, cost in sorted(groups.items())
    ]
    slow_lines = [f"    {json.dumps(name)}: {value:.0f}" for name, value in sorted(slow.items())]
    parts = []
    for key, those in (("groups", lines), ("slow", slow_lines)):
        joined = ",\n".join(those)
        parts.append(f'  "{key}": {{\n{joined}\n  }}' if those else f'  "{key}": {{}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
