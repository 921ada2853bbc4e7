"""Measures jobs of Spark: records per second, and processor time per record.

The processor time is that of the benchmark's process, of Spark and of its Python workers. That of
the broker is only included on request. The rounds of the jobs alternate, and the first rounds warm up. Results are medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
from compat.lab.broker import Broker

ROUNDS = 5
WARM_UP_ROUNDS = 2

Job = Callable[[], None]


@dataclass(frozen=True)
class Cost:
    """The cost of a job."""

    records_per_second: float
    cpu_seconds_per_record: float

    def __str__(self) -> str:
        rate, cpu = self.records_per_second / 1e6, self.cpu_seconds_per_record * 1e6
        return f"{rate:.2f} M records/s   {cpu:.2f} µs of CPU a record"


def cpu_seconds(broker: Broker) -> float:
    """Return the processor time of this process and its children, with those that have ended."""
    here = psutil.Process()
    total = 0.0
    for each in (here, *here.children(recursive=True)):
        if each.pid == broker.process.pid:
            continue
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:  # it has just ended, and is counted by its parent
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measure(
    jobs: dict[str, Job], records: int, broker: Broker, with_broker: bool = False
) -> dict[str, Cost]:
    """Return the cost of each job, which processes `records`."""

    def cpu() -> float:
        return cpu_seconds(broker) + (broker.cpu_seconds() if with_broker else 0)

    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for name, job in jobs.items():
            began, cpu_began = time.perf_counter(), cpu()
            job()
            ended, cpu_ended = time.perf_counter(), cpu()
            if number >= WARM_UP_ROUNDS:
                taken[name].append((ended - began, cpu_ended - cpu_began))
    return {
        name: Cost(
            records / statistics.median(wall for wall, _ in each),
            statistics.median(cpu for _, cpu in each) / records,
        )
        for name, each in taken.items()
    }
