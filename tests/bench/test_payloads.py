"""The values that all clients send."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from bench.payloads import LONG_TAILED, UNIFORM, draw_values, read_payloads, write_payloads


def test_a_file_has_the_values_that_are_drawn_each_time(tmp_path: Path) -> None:
    assert read_payloads(write_payloads(UNIFORM, tmp_path)) == draw_values(UNIFORM)


def test_uniform_sizes() -> None:
    sizes = [len(value) for value in draw_values(UNIFORM)]
    assert (min(sizes), max(sizes)) == (40, 160)
    assert statistics.mean(sizes) == pytest.approx(100, abs=1)


def test_long_tailed_sizes() -> None:
    sizes = [len(value) for value in draw_values(LONG_TAILED)]
    assert (min(sizes), max(sizes)) == (40, 10_000)
    assert statistics.median(sizes) < statistics.mean(sizes) / 1.5
