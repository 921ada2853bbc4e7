"""Survivors of long collections are excluded from the next ones."""

from __future__ import annotations

import gc
import subprocess
import sys

from odradek.env.garbage import LONG_SECONDS, THRESHOLD_2, CollectionLimiter


def test_after_a_long_full_collection_objects_are_excluded():
    now = 0.0
    excluded = []

    def collect(generation: int, seconds: float) -> bool:
        nonlocal now
        limiter.on_collection("start", {"generation": generation})
        now += seconds
        excluded.clear()
        limiter.on_collection("stop", {"generation": generation})
        return bool(excluded)

    limiter = CollectionLimiter(lambda: now, lambda: excluded.append(1))
    assert not collect(2, LONG_SECONDS / 2)
    assert collect(2, LONG_SECONDS * 2)
    assert not collect(1, LONG_SECONDS * 2)
    assert not collect(2, LONG_SECONDS / 2)


def test_the_collector_of_a_process():
    """In a process of its own, because the collector belongs to the process."""
    program = f"""
import gc
from odradek.env.garbage import CollectionLimiter
ticks = iter(range(1000))
CollectionLimiter(lambda: next(ticks)).watch()  # every collection takes a second
assert gc.get_threshold()[2] == {THRESHOLD_2}
before = gc.get_freeze_count()
assert before > 1000
kept = [[] for _ in range(5000)]
gc.collect()
assert gc.get_freeze_count() >= before + 5000
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert gc.get_threshold()[2] != THRESHOLD_2
