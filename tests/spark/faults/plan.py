"""What a run does. Everything follows from its seed.

The first fault of a run has the kind and the step that belong to its seed: consecutive seeds go
through all of them, so that a number of runs meets each one equally often. The second fault is
random. Of 200 seeds, the first 50 have one broker, and the others a cluster of three. The last 60
run on Spark's standalone cluster.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.spark.faults.network import WAYS

TASK_STEPS = ("task-start", "task-middle", "task-end")
COMMIT_STEPS = ("commit-start", "before-rows", "before-end", "end-sent", "after-end")
STEPS = ("begun", *TASK_STEPS, *COMMIT_STEPS)
"""All steps of an exactly-once write, in order."""
EXACTLY_ONCE, AT_LEAST_ONCE, SPARK = "exactly-once", "at-least-once", "spark"
STEPS_BY_GUARANTEE = {
    EXACTLY_ONCE: STEPS,
    AT_LEAST_ONCE: (*TASK_STEPS, "commit-start"),
    SPARK: TASK_STEPS,
}
"""The steps of each sink. `spark` is Spark's own sink, whose driver does nothing at a commit."""
RANDOM_TIME = "random time"
DRIVER, ZOMBIE, WORKER, BROKER, EXECUTOR = "driver", "zombie", "worker", "broker", "executor"
CUT = "cut"
KINDS = (DRIVER, WORKER, BROKER, ZOMBIE, CUT)
CHEAP_KINDS = (WORKER, BROKER, CUT)
"""A new driver takes many times the processor time of another worker or broker. So the second fault
of a run is one of these, and without executors the first one is one of these twice as often."""
ROLES = ("target", "markers", "coordinator", "controller")
"""What the broker leads that is killed, or that Spark cannot reach, if there are several."""
SKIPS_MAX = 1
RANDOM_SECONDS_MAX = 1.5
MIXED, LOCAL, CLUSTER = "mixed", "local", "cluster"
PLACES = (MIXED, LOCAL, CLUSTER)
"""Where Spark runs. With `mixed` the seed says where."""
CYCLE, SINGLE_BROKERS, LOCAL_RUNS = 200, 50, 140
"""Of so many consecutive seeds, the first ones have one broker, and the first ones run locally."""


@dataclass(frozen=True)
class Fault:
    """What is killed, and when."""

    kind: str
    step: str
    skips: int = 0
    """How often the step is passed before."""
    wait_seconds: float = 0.0
    """How long a fault at a random time waits."""
    role: str = ROLES[0]
    way: str = WAYS[0]
    """How the network is cut."""

    @property
    def name(self) -> str:
        """The kind and the step, for the counts."""
        return f"{self.kind} at {self.step}"


@dataclass(frozen=True)
class Plan:
    """A run."""

    seed: int
    brokers: int
    on_cluster: bool
    """Whether Spark runs on a standalone cluster."""
    distribution: str
    """Who writes the rows: the `driver`, or the `tasks`."""
    faults: tuple[Fault, ...]

    @property
    def has_cut(self) -> bool:
        """Whether Spark reaches the brokers through proxies."""
        return any(each.kind == CUT for each in self.faults)


def pairs(guarantee: str, *, on_cluster: bool) -> list[tuple[str, str]]:
    """Return the kinds of faults, each with all its steps, in the order of the seeds."""
    found: list[tuple[str, str]] = []
    for step in (*STEPS_BY_GUARANTEE[guarantee], RANDOM_TIME):
        found += [(kind, step) for kind in KINDS]
        found += [(kind, step) for kind in ((EXECUTOR,) if on_cluster else CHEAP_KINDS)]
    return found


def places(seed: int, where: str) -> tuple[int, bool]:
    """Return the number of brokers, and whether Spark runs on a cluster."""
    position = seed % CYCLE
    on_cluster = where == CLUSTER or (where == MIXED and position >= LOCAL_RUNS)
    return 1 if position < SINGLE_BROKERS else 3, on_cluster


def plan(seed: int, guarantee: str, where: str = MIXED) -> Plan:
    """Return the run of a seed."""
    choices = random.Random(seed)
    brokers, on_cluster = places(seed, where)
    all_pairs = pairs(guarantee, on_cluster=on_cluster)
    second = choices.choice((*CHEAP_KINDS, EXECUTOR) if on_cluster else CHEAP_KINDS)
    steps = [step for kind, step in all_pairs if kind == second]
    both = (all_pairs[seed % len(all_pairs)], (second, choices.choice(steps)))
    faults = tuple(
        Fault(
            kind,
            step,
            choices.randrange(SKIPS_MAX + 1),
            choices.uniform(0, RANDOM_SECONDS_MAX),
            choices.choice(ROLES),
            choices.choice(WAYS),
        )
        for kind, step in both
    )
    return Plan(seed, brokers, on_cluster, choices.choice(("tasks", "driver")), faults)
