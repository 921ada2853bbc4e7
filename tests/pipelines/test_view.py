"""The view on a terminal: what it shows at which time, and what stays when it ends."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from rich.console import Console

from odradek.pipelines.reports import Report
from odradek.pipelines.view import View

REPORT = Report(
    query_id="id-1",
    query="sessions",
    batch=3,
    at="2026-11-23T02:44:59.927Z",
    rows=1500,
    rows_per_second=3000.4,
    duration_ms=500,
    lag=500,
    watermark="2019-10-04T05:06:07.000Z",
    state_rows=1234,
)


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)


@pytest.fixture
def view(console, clock):
    return View(console, clock)


def text(view):
    console = Console(file=io.StringIO(), width=160)
    console.print(view.render())
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_it_shows_the_phase_from_the_first_second(view, clock):
    view.phase("Starting Spark on local[*]")
    clock.now_s += 7
    assert text(view) == [["Starting", "Spark", "on", "local[*]", "(7", "s)"]]


def test_rows_that_are_sent(view):
    view.phase("Running")
    view.sent(1000)
    assert text(view)[1][-1] == "1,000"
    view.total(4000)
    *_, bar, sent, of, total = text(view)[1]
    assert (sent, of, total) == ("1,000", "of", "4,000")


def test_a_query(view, clock):
    view.batch(REPORT)
    view.batch(dataclasses.replace(REPORT, rows=2000, lag=0))
    clock.now_s += 4
    _, header, row = text(view)
    assert header[0] == "query"
    assert [each for each in row if "━" not in each] == [
        *("sessions", "100%", "3,500", "3,000", "0", "2019-10-04", "05:06:07", "1,234"),
        *("02:44:59", "(0.5", "s,", "4", "s", "ago)"),
    ]


def test_a_query_without_lag_and_watermark(view):
    view.batch(dataclasses.replace(REPORT, lag=None, watermark=None, state_rows=0))
    (*_, row) = text(view)
    assert row.count("-") == 2


def test_a_line_for_each_query_stays(view, console):
    with view.shown():
        view.batch(REPORT)
    last = console.file.getvalue().splitlines()[-1]
    assert re.sub(r"\x1b\[[0-9]*[A-Z]", "", last).split() == [
        *("sessions", "1", "micro-batches", "1,500", "rows", "3,000", "rows/s", "0.5", "s")
    ]
