"""`python -m tests.pipelines.own_kills [--pipeline NAME] COUNT`: kills pipelines on own data.

Each pipeline gets COUNT records in a public format, one in a hundred of which is bad. Its process is
killed with SIGKILL twice, and started again: the first time at a random moment while it sends, and the
second time during a random micro-batch. At the end its table, whose expected values are DuckDB's, must
agree in all lines. The exit code is 0 if it does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.pipelines import samples
from tests.support.child import ODRADEK, Child
from tests.support.run_seed import run_seed

ROOT = Path(__file__).resolve().parents[3]
BATCHES_MAX = 3
"""The second kill is after one of the first micro-batches."""
PAUSE_S_MAX = 3.0
"""A kill is at most so much later than what it waits for."""


def log_file(path: Path, count: int) -> int:
    """A log whose lines have dates in three forms, or none; returns the number of bad lines: none."""
    chance = random.Random(6)
    stamps = (
        "2026-11-{0:02} 10:00:{1:02}",
        "[{0:02}/Nov/2026:10:00:{1:02} +0000]",
        "2026-11-{0:02}T10:00:{1:02}",
        "",
    )
    with path.open("w") as file:
        for number in range(count):
            stamp = chance.choice(stamps).format(1 + number % 28, number % 60)
            file.write(f"{stamp} {chance.choice(('ERROR', 'info', 'x'))} line {number}\n")
    return 0


Make = Callable[[Path, int], int]
PIPELINES: dict[str, tuple[Make, str, tuple[str, ...]]] = {
    "logs": (log_file, "app.log", ()),
    "activity": (samples.shop_events, "2019-Oct.csv.gz", ()),
    "stages": (samples.shop_events, "2019-Oct.csv", ("--reference", "products.csv")),
    "commitlog": (samples.changes, "changes.jsonl", ()),
    "suggestions": (samples.ratings, "ratings.csv", ("--remember", "5")),
    "metrics": (samples.prometheus, "metrics.prom", ("--alert", "node_load1>5")),
}


@dataclass
class Kill:
    """Kills a pipeline `pause_s` after its start, or after a number of micro-batches."""

    batches: int
    pause_s: float

    def is_due(self, events: list[dict]) -> bool:
        count = sum(each["event"] == "batch" for each in events)
        return bool(events) and count >= self.batches


def run(name: str, directory: Path, words: list[str], kill: Kill | None) -> list[dict]:
    """Run a pipeline, kill it, or wait for its end; returns its events."""
    state = {"XDG_STATE_HOME": str(directory / "state"), "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    command = [*ODRADEK, "pipeline", "run", name, *words, "--json"]
    with Child(
        command, directory=directory, environment={**os.environ, **state}, talks=True
    ) as process:
        found = []
        if kill is not None:
            for line in process.lines():
                found.append(json.loads(line))
                if kill.is_due(found):
                    break
            time.sleep(kill.pause_s)
            process.signal(signal.SIGKILL)
        found += [json.loads(line) for line in process.lines() if line.startswith("{")]
        code = process.wait()
        if kill is None and code != 0:
            print(process.last_words, found[-1:], file=sys.stderr)
    return found


def killed(name: str, count: int, chance: random.Random) -> bool:
    """Kill a pipeline, let it end, and return whether it agrees with DuckDB."""
    make, file, words = PIPELINES[name]
    directory = Path(tempfile.mkdtemp(prefix=f"odradek-kills-{name}-"))
    try:
        bad = make(directory / file, count)
        samples.products(directory / "products.csv")
        all_words = ["--input", file, *words]
        began = time.monotonic()
        batches = 0
        kills = [
            Kill(each, chance.uniform(0, PAUSE_S_MAX))
            for each in (0, chance.randint(1, BATCHES_MAX))
        ]
        for kill in kills:
            events = run(name, directory, all_words, kill)
            assert events[-1]["event"] != "reconciled", "it ended before the kill"
            batches += sum(each["event"] == "batch" for each in events)
        last = run(name, directory, all_words, None)[-1]
        lines = last.get("lines", [])
        wrong = [each for each in lines if each["expected"] != each["found"]]
        seconds = time.monotonic() - began
        agrees = last["event"] == "reconciled" and not wrong
        print(
            f"{name}: {count} records, {bad} bad, {len(kills)} kills after {batches} micro-batches, "
            f"{len(lines)} lines compared with DuckDB, {len(wrong)} differ, {seconds:.0f} s",
            flush=True,
        )
        for each in wrong:
            print(f"  {each['what']}: expected {each['expected']}, found {each['found']}")
        return agrees
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Return 0 if all pipelines agree with DuckDB."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", choices=PIPELINES, action="append")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    chance = random.Random(run_seed())
    outcomes = [killed(name, options.count, chance) for name in options.pipeline or PIPELINES]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
