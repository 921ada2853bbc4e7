"""Common to all tests: the seed of a run, commands that repeat failures, and groups of workers."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator

import pytest
from compat.lab.toolchain import RequiredMissing, check_required
from hypothesis import HealthCheck, settings
from tests.support.run_seed import VARIABLE, run_seed
from tests.support.scheduling import GroupScheduling, rank
from xdist.remote import Producer

# How long an example takes tells how busy the machine is, not whether the code is right.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

FIGURES = "figures"
"""The property of a test's report that the summary of the run shows."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before tests are collected and workers are started, which have to take the same seed."""
    try:
        check_required()
    except RequiredMissing as reason:
        raise pytest.UsageError(str(reason)) from None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts commands in the background so, and all processes of the tests would be too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = run_seed()
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """For all values of --dist."""
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


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
    return " ".join([*words, "python -m pytest", shlex.quote(nodeid)])


@pytest.fixture
def figures(record_property: object) -> Iterator[list[str]]:
    """What a test puts here is shown in the summary of the run."""
    shown: list[str] = []
    yield shown
    assert callable(record_property)
    for text in shown:
        record_property(FIGURES, text)
