"""Common to all tests: the seed of a run, commands that repeat failures, and groups of workers."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Iterator

import pytest
from compat.lab.toolchain import RequiredMissing, check_required
from hypothesis import HealthCheck, settings
from tests.support import durations
from tests.support.run_seed import VARIABLE, run_seed
from tests.support.scheduling import GroupScheduling, by_duration, group, lower_priority
from xdist.remote import Producer

# How long an example takes tells how busy the machine is, not whether the code is right.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

FIGURES = "figures"
"""The property of a test's report that the summary of the run shows."""
SLOWEST = 10
"""The number of tests that the summary lists with their durations."""
LONG_RUN_SECONDS = 60.0
"""A run of which the summary lists them takes longer than this."""

_run = durations.Run()
_started = time.monotonic()
_used_before = 0.0
"""The processor time of this process when the last phase of a test ended."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store-durations",
        action="store_true",
        help="write the durations of the tests to tests/durations.json",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before tests are collected and workers are started, which have to take the same seed."""
    try:
        check_required()
    except RequiredMissing as reason:
        raise pytest.UsageError(str(reason)) from None
    if config.option.store_durations and not hasattr(config, "workerinput"):
        durations.check_idle()
    lower_priority(getattr(config, "workerinput", {}).get("workerid"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts commands in the background so, and all processes of the tests would be too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = run_seed()
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    by_duration(items, durations.stored())


def pytest_runtestloop() -> None:
    global _used_before
    _used_before = durations.processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Give each report the processor time since the report before."""
    global _used_before
    report = yield
    used = durations.processor_seconds()
    report.processor_seconds = used - _used_before
    _used_before = used
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    used = getattr(report, "processor_seconds", 0.0)
    _run.add(report.nodeid, report.when, report.duration, used)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.option.store_durations and not hasattr(session.config, "workerinput"):
        _run.store(group, durations.stored())


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
    _show_durations(terminalreporter)
    failed = [
        each.nodeid for kind in ("failed", "error") for each in terminalreporter.getreports(kind)
    ]
    if failed:
        terminalreporter.section("to repeat the failures")
        for nodeid in dict.fromkeys(failed):
            terminalreporter.write_line(repeat_command(nodeid))


def _show_durations(terminalreporter: pytest.TerminalReporter) -> None:
    """The slowest tests of a long run, and its totals."""
    elapsed = time.monotonic() - _started
    if elapsed < LONG_RUN_SECONDS:
        return
    terminalreporter.section(f"the {SLOWEST} slowest tests")
    for nodeid, cost in _run.slowest(SLOWEST):
        terminalreporter.write_line(
            f"{cost.seconds:6.1f} s, {cost.processor_seconds:6.1f} s of a processor: {nodeid}"
        )
    total = _run.total()
    terminalreporter.write_line(
        f"all tests: {total.seconds:.0f} s, {total.processor_seconds:.0f} s of a processor, "
        f"in a run of {elapsed:.0f} s"
    )


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
