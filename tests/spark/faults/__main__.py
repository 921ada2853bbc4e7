"""`python -m tests.spark.faults [--apache] [--cluster] FAULTS`: histories with that many faults.

With --guarantee exactly-once (the default) the exit code is 0 if every record was found once in all histories.
With at-least-once it is 0 if no record was lost, and records were found twice: the histories can
find what exactly-once prevents.
"""

from __future__ import annotations

import argparse
import sys

from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.odradek_node import OdradekNode
from tests.spark.faults.histories import play
from tests.support import progress
from tests.support.run_seed import run_seed, seeds

FAULTS_PER_HISTORY = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.faults")
    parser.add_argument("--guarantee", default="exactly-once")
    parser.add_argument("--apache", action="store_true", help="Apache Kafka is the broker")
    parser.add_argument("--cluster", action="store_true", help="Spark runs on a standalone cluster")
    parser.add_argument("--seed", type=int, help="the seed of a single history")
    parser.add_argument("faults", type=int, nargs="?", default=FAULTS_PER_HISTORY)
    options = parser.parse_args()
    broker = BriefApacheKafka if options.apache else OdradekNode
    numbers = iter(seeds(10 * options.faults) if options.seed is None else [options.seed])
    done = histories = starts = missing = doubled = 0
    for seed in numbers:
        outcome = play(
            broker, seed, FAULTS_PER_HISTORY, options.guarantee, on_cluster=options.cluster
        )
        histories, starts = histories + 1, starts + outcome.job_starts
        done += len(outcome.faults)
        missing, doubled = missing + outcome.missing, doubled + outcome.doubled
        state = "" if outcome.missing == outcome.doubled == 0 else "  <--"
        print(
            f"seed {seed}: {', '.join(outcome.faults) or 'no fault'}: "
            f"{outcome.missing} missing, {outcome.doubled} doubled{state}",
            flush=True,
        )
        progress.report(done, options.faults, "faults")
        if done >= options.faults:
            break
    print(
        f"{done} faults in {histories} histories ({starts} drivers, {options.guarantee}, seed "
        f"{run_seed()}): {missing} records missing, {doubled} doubled"
    )
    if options.guarantee == "exactly-once":
        return 0 if missing == doubled == 0 else 1
    return 0 if missing == 0 < doubled else 1


if __name__ == "__main__":
    sys.exit(main())
