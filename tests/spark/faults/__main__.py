"""`python -m tests.spark.faults [--apache] [--spark WHERE] RUNS`: that many runs with faults.

Each run has a seed, which determines it. With --results FILE (or ODRADEK_SPARK_FAULTS_RESULTS) the
outcome of each run is appended to the file, and seeds that are in the file are not run again: so an
interrupted test continues. --first sets the first seed, to repeat a part.

With --guarantee exactly-once (the default) the exit code is 0 if every record was found once in all
runs. With at-least-once, and with spark (Spark's own sink), it is 0 if no record was lost, and
records were found twice: the runs can find what exactly-once prevents. It is 1, too, if there were
enough runs to reach each step, and a step was not reached.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import psutil
from compat.lab.broker import BrokerFailed
from confluent_kafka import KafkaException
from tests.spark.faults.histories import Outcome, Runs
from tests.spark.faults.plan import (
    CYCLE,
    EXACTLY_ONCE,
    MIXED,
    PLACES,
    STEPS_BY_GUARANTEE,
    pairs,
    places,
    plan,
)
from tests.support import progress
from tests.support.run_seed import run_seed, seeds

from odradek.client.errors import ClientError

FAILURES = (AssertionError, BrokerFailed, ClientError, KafkaException, OSError, psutil.Error)
"""A run that ends with one of these has failed. The next run begins with new processes."""
RESULTS_VARIABLE = "ODRADEK_SPARK_FAULTS_RESULTS"


def main() -> int:
    options = arguments()
    first = seeds(1)[0] if options.first is None else options.first
    wanted = range(first, first + options.runs)
    outcomes = {each.seed: each for each in stored(options.results) if each.seed in wanted}
    earlier, errors, started = len(outcomes), 0, time.monotonic()
    with Runs(options.guarantee, apache=options.apache) as runs:
        for seed in wanted:
            if seed in outcomes:
                continue
            try:
                outcome = runs.play(plan(seed, options.guarantee, options.spark))
            except FAILURES:
                traceback.print_exc(file=sys.stdout)
                print(f"seed {seed}: the run failed  <--", flush=True)
                errors += 1
                continue
            outcomes[seed] = outcome
            store(options.results, outcome)
            print(text(outcome), flush=True)
            progress.report(len(outcomes), options.runs, "runs")
        drivers = runs.drivers_used
    print_counts(list(outcomes.values()), options.guarantee)
    missing = sum(each.missing for each in outcomes.values())
    doubled = sum(each.doubled for each in outcomes.values())
    faults = sum(len(each.faults) for each in outcomes.values())
    on_cluster = sum(each.on_cluster for each in outcomes.values())
    print(
        f"{len(outcomes)} runs ({earlier} of them before, {on_cluster} on a cluster of Spark), "
        f"{faults} faults, {drivers} drivers, "
        f"{options.guarantee}, seeds from {first} (run {run_seed()}), "
        f"{time.monotonic() - started:.0f} s"
    )
    unreached = not_reached(list(outcomes.values()), options)
    if unreached:
        print(f"not reached: {', '.join(unreached)}")
    print(f"{errors} runs failed, {missing} records missing, {doubled} doubled")
    expected = doubled == 0 if options.guarantee == EXACTLY_ONCE else doubled > 0
    return 0 if missing == errors == 0 and expected and not unreached else 1


def text(outcome: Outcome) -> str:
    state = "" if outcome.missing == outcome.doubled == 0 else "  <--"
    brokers = ", ".join((*outcome.killed, *outcome.cuts))
    which = f" ({brokers})" if brokers else ""
    return (
        f"seed {outcome.seed}: {', '.join(outcome.faults) or 'no fault'}{which}: "
        f"{outcome.missing} missing, {outcome.doubled} doubled, {outcome.seconds} s{state}"
    )


def print_counts(outcomes: list[Outcome], guarantee: str) -> None:
    """Print how often each kind of fault happened at each step."""
    counts = Counter(fault for each in outcomes for fault in each.faults)
    kinds = sorted({name.partition(" at ")[0] for name in counts})
    for step in (*STEPS_BY_GUARANTEE[guarantee], "random time"):
        cells = [f"{counts[f'{kind} at {step}']} {kind}" for kind in kinds]
        print(f"{step}: {', '.join(cells)}")
    killed = Counter(each for outcome in outcomes for each in outcome.killed)
    cuts = Counter(each for outcome in outcomes for each in outcome.cuts)
    for name, found in (("cuts", cuts), ("brokers", killed)):
        print(f"{name}: {', '.join(f'{count} {each}' for each, count in sorted(found.items()))}")


def not_reached(outcomes: list[Outcome], options: argparse.Namespace) -> list[str]:
    """Return the faults that did not happen although there were enough runs for all."""
    where = {places(seed, options.spark)[1] for seed in range(CYCLE)}
    planned = {pair for each in where for pair in pairs(options.guarantee, on_cluster=each)}
    if options.runs < (CYCLE if len(where) > 1 else len(planned)):
        return []
    happened = {fault for each in outcomes for fault in each.faults}
    return [
        f"{kind} at {step}"
        for kind, step in sorted(planned)
        if step != "random time" and f"{kind} at {step}" not in happened
    ]


def stored(path: Path | None) -> list[Outcome]:
    """Return the outcomes in a file."""
    if path is None or not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def store(path: Path | None, outcome: Outcome) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.faults")
    parser.add_argument("--guarantee", choices=STEPS_BY_GUARANTEE, default=EXACTLY_ONCE)
    parser.add_argument("--apache", action="store_true", help="brokers are Apache Kafka's")
    help_of_spark = f"where Spark runs; {MIXED}: 60 of 200 runs are on a standalone cluster"
    parser.add_argument("--spark", choices=PLACES, default=MIXED, help=help_of_spark)
    parser.add_argument("--first", type=int, help="the seed of the first run")
    variable = os.environ.get(RESULTS_VARIABLE)
    parser.add_argument("--results", type=Path, default=Path(variable) if variable else None)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
