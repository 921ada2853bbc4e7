"""`python -m tests.pipelines.own_kills [--pipeline NAME] COUNT`: kills pipelines on own data.

Each pipeline gets COUNT records in a public format, one in a hundred of which is bad. Its process is
killed with SIGKILL twice, each time at a random moment, and started again. At the end its table, whose
expected values are DuckDB's, must agree in all lines. The exit code is 0 if it does.
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
from pathlib import Path

from tests.pipelines import samples
from tests.support.child import ODRADEK, Child
from tests.support.run_seed import run_seed

ROOT = Path(__file__).resolve().parents[3]
KILLS = 2
PAUSE_S = (4.0, 25.0)
"""A kill is so much later than the moment at which the pipeline says that it has started."""
PATIENCE_S = 1_800


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


def run(name: str, directory: Path, words: list[str], kill_after_s: float | None) -> list[dict]:
    """Run a pipeline, kill it after some time, or wait for its end; returns its events."""
    state = {"XDG_STATE_HOME": str(directory / "state"), "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    command = [*ODRADEK, "pipeline", "run", name, *words, "--json"]
    with Child(
        command, directory=directory, environment={**os.environ, **state}, talks=True
    ) as process:
        found = []
        if kill_after_s is not None:
            for line in process.lines():
                found.append(json.loads(line))
                if found[-1]["event"] == "started":
                    break
            time.sleep(kill_after_s)
            process.signal(signal.SIGKILL)
        found += [json.loads(line) for line in process.lines() if line.startswith("{")]
        code = process.wait()
        if kill_after_s is None and code != 0:
            print(process.last_words, found[-1:], file=sys.stderr)
    return found


def killed(name: str, count: int, chance: random.Random, kills: int = KILLS) -> bool:
    """Kill a pipeline, let it end, and return whether it agrees with DuckDB."""
    make, file, words = PIPELINES[name]
    directory = Path(tempfile.mkdtemp(prefix=f"odradek-kills-{name}-"))
    try:
        bad = make(directory / file, count)
        samples.products(directory / "products.csv")
        all_words = ["--input", file, *words]
        began = time.monotonic()
        batches = 0
        for _ in range(kills):
            events = run(name, directory, all_words, chance.uniform(*PAUSE_S))
            batches += sum(each["event"] == "batch" for each in events)
        last = run(name, directory, all_words, None)[-1]
        lines = last.get("lines", [])
        wrong = [each for each in lines if each["expected"] != each["found"]]
        seconds = time.monotonic() - began
        agrees = last["event"] == "reconciled" and not wrong
        print(
            f"{name}: {count} records, {bad} bad, {kills} kills after {batches} micro-batches, "
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
