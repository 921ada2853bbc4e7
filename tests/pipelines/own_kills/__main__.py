"""`python -m tests.pipelines.own_kills [--pipeline NAME] COUNT`: kills pipelines on own data.

Each pipeline gets COUNT records in a public format, one in a hundred of which is bad. Its process is
killed with SIGKILL twice, and started again: the first time at a random moment while it sends, and the
second time during a random micro-batch, if it does not end before. At the end its table, whose expected
values are DuckDB's, must agree in all lines. The exit code is 0 if it does.

The pipeline `follow` is `logs --follow`: its log grows and is rotated meanwhile. After both kills it is
stopped by SIGINT, and started again.
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
from tests.pipelines.own_kills.growing import Program
from tests.support.child import ODRADEK, Child
from tests.support.run_seed import run_seed

from odradek.pipelines.runner import EXIT_INTERRUPTED

ROOT = Path(__file__).resolve().parents[3]
FOLLOW = "follow"
BATCHES_MAX = 3
"""The second kill is after one of the first micro-batches."""
FOLLOWED_S = (
    (signal.SIGKILL, (0.0, 3.0)),
    (signal.SIGKILL, (5.0, 30.0)),
    (signal.SIGINT, (5.0, 30.0)),
)
"""The signals that end the pipeline that follows a log, and when, after its start."""
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


def run(
    name: str,
    directory: Path,
    words: list[str],
    kill: Kill | None,
    number: signal.Signals = signal.SIGKILL,
) -> list[dict]:
    """Run a pipeline, and wait for its end, or end it by a signal; returns its events."""
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
            process.signal(number)
        found += [json.loads(line) for line in process.lines() if line.startswith("{")]
        code = process.wait()
        expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: EXIT_INTERRUPTED}
        if code != (0 if kill is None else expected[number]):
            print(f"{name} ended with {code}:", file=sys.stderr)
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
        kills = [
            Kill(each, chance.uniform(0, PAUSE_S_MAX))
            for each in (0, chance.randint(1, BATCHES_MAX))
        ]
        runs = []
        for kill in (*kills, None):
            runs.append(run(name, directory, all_words, kill))
            if runs[-1][-1]["event"] == "reconciled":
                break  # a pipeline of few records may end before the second kill
        batches = sum(each["event"] == "batch" for events in runs[:-1] for each in events)
        last = runs[-1][-1]
        lines = last.get("lines", [])
        wrong = [each for each in lines if each["expected"] != each["found"]]
        seconds = time.monotonic() - began
        agrees = last["event"] == "reconciled" and not wrong and len(runs) > 1
        print(
            f"{name}: {count} records, {bad} bad, {len(runs) - 1} kills after {batches} micro-batches, "
            f"{len(lines)} lines compared with DuckDB, {len(wrong)} differ, {seconds:.0f} s",
            flush=True,
        )
        for each in wrong:
            print(f"  {each['what']}: expected {each['expected']}, found {each['found']}")
        return agrees
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def followed(count: int, chance: random.Random) -> bool:
    """Follow a log, be killed twice, be stopped, and return whether all lines are in the lake once."""
    directory = Path(tempfile.mkdtemp(prefix="odradek-kills-follow-"))
    try:
        program = Program(directory / "logs", count, chance)
        program.start()
        words = ["--input", "logs", "--follow"]
        began = time.monotonic()
        batches = 0
        for number, pauses_s in FOLLOWED_S:
            kill = Kill(0, chance.uniform(*pauses_s))
            events = run("logs", directory, words, kill, number)
            batches += sum(each["event"] == "batch" for each in events)
        program.hurry()
        program.join()
        last = run("logs", directory, [*words, "--seconds", "5"], None)[-1]
        lines = last.get("lines", [])
        wrong = [each for each in lines if each["expected"] != each["found"]]
        given = [e["expected"] for e in lines if e["what"] == "all lines that were given"]
        print(
            f"follow: {count} lines, {program.rotations} rotations, 2 kills and a stop after {batches} "
            f"micro-batches, {given} lines found, {len(lines)} lines compared with DuckDB, "
            f"{len(wrong)} differ, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        return last["event"] == "reconciled" and not wrong and given == [str(count)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Return 0 if all pipelines agree with DuckDB."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", choices=[*PIPELINES, FOLLOW], action="append")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    chance = random.Random(run_seed())
    outcomes = [
        followed(options.count, chance) if name == FOLLOW else killed(name, options.count, chance)
        for name in options.pipeline or [*PIPELINES, FOLLOW]
    ]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
