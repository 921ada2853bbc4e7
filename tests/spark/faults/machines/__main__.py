"""`python -m tests.spark.faults.machines RUNS`: kills machines of Spark's standalone cluster.

The cluster has two workers. A run kills one of them with its executors (SIGKILL), at a step of an
exactly-once write, and starts it again. Consecutive runs go through all steps; in every second run
the driver writes the rows instead of the tasks. The exit code is 0 if a read_committed consumer has found each record
once in all runs, and each step was reached.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from typing import Any

import psutil
from tests.spark.faults.__main__ import FAILURES, text
from tests.spark.faults.histories import Run, Runs, executor_of
from tests.spark.faults.plan import EXACTLY_ONCE, STEPS, TASK_STEPS, Fault, Plan
from tests.spark.faults.standalone import StandaloneCluster
from tests.support import progress
from tests.support.run_seed import run_seed

MACHINE = "machine"
EXECUTOR_COMMAND = "CoarseGrainedExecutorBackend"


class MachineRun(Run):
    """A run whose faults kill a worker of the cluster."""

    def __init__(self, cluster: StandaloneCluster, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cluster = cluster

    def _at_step(self, fault: Fault) -> None:
        if fault.step in TASK_STEPS:
            pid = int((self._faults / f"reached-{fault.step}").read_text())
            executor = executor_of(psutil.Process(pid))
        else:  # the driver waits, while executors do nothing
            executor = self._random.choice(executors(self._driver.application_id))
        number = self._cluster.kill_worker_of(executor)
        self._settle(fault.step)
        self._cluster.start_worker(number)


class MachineRuns(Runs):
    """Runs on one standalone cluster."""

    def _make(self, *arguments: Any) -> Run:
        assert self._cluster is not None
        return MachineRun(self._cluster, *arguments)


def executors(application_id: str) -> list[psutil.Process]:
    """Return the executors of an application."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or ()
        if application_id in words and EXECUTOR_COMMAND in " ".join(words):
            found.append(each)
    return found


def plan(number: int) -> Plan:
    """Return the run of a number."""
    skips = random.Random(number).randrange(2)
    fault = Fault(MACHINE, STEPS[number % len(STEPS)], skips)
    distribution = ("tasks", "driver")[(number + number // len(STEPS)) % 2]
    return Plan(run_seed() * 1000 + number, 1, True, distribution, (fault,))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int)
    options = parser.parse_args()
    outcomes, errors, started = [], 0, time.monotonic()
    with MachineRuns(EXACTLY_ONCE, apache=False) as runs:
        for number in range(options.runs):
            try:
                outcomes.append(runs.play(plan(number)))
            except FAILURES:
                traceback.print_exc(file=sys.stdout)
                errors += 1
                continue
            print(text(outcomes[-1]), flush=True)
            progress.report(number + 1, options.runs, "runs")
    counts = Counter(fault for each in outcomes for fault in each.faults)
    wanted = {f"{MACHINE} at {step}" for step in STEPS[: options.runs]}
    missing = sum(each.missing for each in outcomes)
    doubled = sum(each.doubled for each in outcomes)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(
        f"{len(outcomes)} runs, {counts.total()} workers killed, {errors} runs failed, "
        f"{missing} records missing, {doubled} doubled, {time.monotonic() - started:.0f} s"
    )
    unreached = sorted(wanted - counts.keys())
    if unreached:
        print(f"not reached: {', '.join(unreached)}")
    return 0 if missing == doubled == errors == 0 and not unreached else 1


if __name__ == "__main__":
    sys.exit(main())
