"""Simulations of a whole node: the same seed gives the same history, and no guarantee is
violated."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter
from itertools import zip_longest

import pytest
from tests.support.run_seed import numbers_of_histories

from odradek.broker.partitions.partition import Partition
from odradek.log import loader
from odradek.records.compiled import COMPILED
from odradek.sim.scenario import Outcome, simulate

SEEDS = range(1, 7)
"""Seeds that are always tested. ODRADEK_SIMULATIONS sets the number of other seeds."""
PLANTED_SEEDS_MAX = 40
"""Maximum number of seeds until an inserted bug must be found."""


@functools.cache
def once(seed: int) -> Outcome:
    return simulate(seed)


def first_difference(one: list[str], other: list[str]) -> str:
    pairs = zip_longest(one, other, fillvalue="(the end)")
    return next((f"line {at}: {a} | {b}" for at, (a, b) in enumerate(pairs) if a != b), "")


@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_SIMULATIONS", 6))
def test_a_seed_twice_gives_equal_histories_without_violations(seed: int) -> None:
    one, other = simulate(seed), simulate(seed)
    assert first_difference(one.lines, other.lines) == ""
    assert one.digest == other.digest
    assert one.violations == []


def test_the_clients_of_some_runs_do_and_meet_everything() -> None:
    """The runs must contain faults and acknowledged records."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts.update(once(seed).counts)
    for what in (
        "produced", "produce repeated", "consumed", "joined", "offsets committed",
        "transactions committed", "transactions aborted", "transactions given up",
        "fault kill", "fault stop", "fault power", "fault torn", "fault in a start", "processed",
    ):  # fmt: skip
        assert counts[what] > 0, what


def test_the_history_does_not_depend_on_the_order_of_hashes() -> None:
    script = "from odradek.sim.scenario import simulate; print(simulate(3).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {once(3).digest + "\n"}


def is_found(part: str = "") -> bool:
    """Return whether one of the first seeds has a violation with this text."""
    return any(
        part in each
        for seed in range(1, PLANTED_SEEDS_MAX + 1)
        for each in simulate(seed).violations
    )


@pytest.mark.skipif(COMPILED, reason="methods of a compiled class cannot be replaced")
def test_an_acknowledgement_before_the_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def acknowledge_at_once(self, offset, committed):
        committed(None)

    def flush_never(self, end, appended_bytes):
        self._advance_high_watermark(end, appended_bytes)

    monkeypatch.setattr(Partition, "when_committed", acknowledge_at_once)
    monkeypatch.setattr(Partition, "_flush", flush_never)
    assert is_found("was acknowledged and is lost")


def test_a_forgotten_recovery_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = loader.load

    def load_without_recovery(*arguments, **named):
        return load(*arguments, **{**named, "was_clean": True})

    monkeypatch.setattr(loader, "load", load_without_recovery)
    assert is_found()
