"""Common to all tests: the seed of a run, commands that repeat failures, and groups of workers.

With `-n 2 --dist loadgroup` (`make test`) the tests of a file stay together, because they share
fixtures that are expensive to start; some files stay together for the same reason.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from compat.lab.toolchain import RequiredMissing, check_required
from hypothesis import HealthCheck, settings
from tests.support.run_seed import VARIABLE, run_seed

# How long an example takes tells how busy the machine is, not whether the code is right.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

FIGURES = "figures"
"""The property of a test's report that the summary of the run shows."""

SHARED = ("tests/spark", "tests/oracle/test_java")
"""Files with these beginnings share a worker: a Spark session, a process of Java."""
FIRST = (
    "tests/spark",
    "tests/oracle/group_histories",
    "tests/crash",
    "tests/oracle/transactions",
    "tests/compat",
)
"""The longest tests run first, so that no worker runs one alone at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before tests are collected and workers are started, which have to take the same seed."""
    try:
        check_required()
    except RequiredMissing as reason:
        raise pytest.UsageError(str(reason)) from None
    seed = run_seed()
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_rank)


def _path(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _group(item: pytest.Item) -> str:
    path = _path(item)
    name = next((each for each in SHARED if path.startswith(each)), path)
    return str(PurePosixPath(name)).replace("/", ".")


def _rank(item: pytest.Item) -> int:
    path = _path(item)
    ranks = (number for number, each in enumerate(FIRST) if path.startswith(each))
    return next(ranks, len(FIRST))


def pytest_report_header() -> str:
    return f"seed: {run_seed()} (set another one with {VARIABLE}=...)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures of tests that count something, and the commands that repeat failures."""
    reports = [each for those in terminalreporter.stats.values() for each in those]
    shown = [
        (each.nodeid, text)
        for each in reports
        if getattr(each, "when", None) == "teardown"  # when the fixture ends
        for name, text in each.user_properties
        if name == FIGURES
    ]
    if shown:
        terminalreporter.section("figures")
        for nodeid, text in shown:
            terminalreporter.write_line(f"{nodeid}: {text}")
    failed = [
        each.nodeid for kind in ("failed", "error") for each in terminalreporter.getreports(kind)
    ]
    if failed:
        terminalreporter.section("to repeat the failures")
        for nodeid in dict.fromkeys(failed):
            terminalreporter.write_line(repeat_command(nodeid))


def repeat_command(nodeid: str) -> str:
    """The command that runs one test as it was run here."""
    run_seed()
    given = {name: each for name, each in os.environ.items() if name.startswith("ODRADEK_")}
    words = [f"{name}={shlex.quote(each)}" for name, each in sorted(given.items())]
    plain = re.sub(r"@[\w.]+$", "", nodeid)  # xdist appends the group
    return " ".join([*words, "python -m pytest", shlex.quote(plain)])


@pytest.fixture
def figures(record_property: object) -> Iterator[list[str]]:
    """What a test puts here is shown in the summary of the run."""
    shown: list[str] = []
    yield shown
    assert callable(record_property)
    for text in shown:
        record_property(FIGURES, text)
