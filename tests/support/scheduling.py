"""Decides which tests run in the same worker, which begin first, and which run at the same time.

The tests of a file run in the same worker, because they share a broker or a Java process, which is
expensive to start. Some files run in the same worker for the same reason. The scheduler computes
the group of a test from the test's id, because pytest 9.2 ignores the groups that pytest-xdist 3.8
writes into the ids.

There are more workers than processors, because most tests of clusters and of clients wait. A worker
that is free gets the longest of the groups for which the processors have time: the stored durations
(`tests.support.durations`) say how many processors a group and the groups that run keep busy. If
there is no such group, the worker gets the group that uses the least processor time.

The tests of Spark need two processors for two minutes, and Spark ends a streaming query whose Python
worker has not connected after ten seconds. Therefore the first worker runs them, and the processes of
all other workers have a lower priority (`lower_priority`).

If a worker dies, the test that it was running fails, and other workers run the rest of its groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pytest
from tests.support.durations import Cost, Durations, stored
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS = {
    "tests/spark/test_demo.py::test_interrupted_in_the_middle": "the interrupted demo",
    "tests/spark/test_without_java.py": "Spark without Java",
    "tests/spark": "a Spark session",
    "tests/oracle/test_java": "a process of Java",
}
"""Groups by the beginning of the tests' ids. If several entries match, the first entry counts."""
SPARK = ("a Spark session", "Spark without Java", "the interrupted demo")
FIRST_WORKER = "gw0"
"""The name that pytest-xdist gives to the worker with the tests of Spark."""
NICENESS = 5
"""Of the other workers. A process of niceness 0 gets three times the time of one of niceness 5."""


def group(nodeid: str) -> str:
    """Return the group of a test: an entry of `GROUPS`, or by default the test's file."""
    found = (name for beginning, name in GROUPS.items() if nodeid.startswith(beginning))
    return next(found, nodeid.partition("::")[0])


def by_duration(items: list[pytest.Item], durations: Durations) -> None:
    """Sort tests: the longest groups first. The tests of a group keep their order."""

    def place(item: pytest.Item) -> tuple[float, str]:
        name = group(item.nodeid)
        return -durations.of(name).seconds, name

    items.sort(key=place)


def chosen(groups: Iterable[tuple[str, Cost]], free: float) -> str:
    """Return the group that begins next, of groups in the order of their durations.

    Args:
        groups: at least one group.
        free: the number of processors that the running groups leave.
    """
    least, least_load = "", float("inf")
    for name, cost in groups:
        if cost.load <= free:
            return name
        if cost.load < least_load:
            least, least_load = name, cost.load
    assert least, "there are groups"
    return least


def lower_priority(worker: str | None) -> None:
    """Give this process a lower priority if it is a worker and not the one that runs Spark."""
    if worker not in {None, FIRST_WORKER}:
        os.nice(NICENESS)


class GroupScheduling(LoadScopeScheduling):
    """Gives each group to one worker. The groups have been collected in the order of `by_duration`."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._durations = stored()
        self._processors = os.cpu_count() or 1
        self._indices: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        name = self._next_group(node)
        unit = self.workqueue.pop(name)
        self.assigned_work[node][name] = unit
        if not self._indices:  # all workers have collected the same tests
            assert self.collection is not None
            self._indices = {nodeid: index for index, nodeid in enumerate(self.collection)}
        node.send_runtest_some(
            [self._indices[nodeid] for nodeid, completed in unit.items() if not completed]
        )

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker that has ended. Return the test that it was running, if it has died.

        That test is not run again. The base class runs it again, in one worker after the other.
        """
        units = self.assigned_work.pop(node)
        pending = (
            nodeid for unit in units.values() for nodeid, completed in unit.items() if not completed
        )
        died_in = next(pending, None)
        if died_in is None:
            return None
        units[group(died_in)][died_in] = True
        self.workqueue.update(
            (name, unit) for name, unit in units.items() if not all(unit.values())
        )
        for other in self.nodes:
            self._reschedule(other)
        return died_in

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker more groups if it has few tests left, or let it end.

        A worker runs a test when it has got the next one, or knows that there is none. One that
        replaces a dead worker would wait for ever if the base class gave it a group of one test.
        """
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _next_group(self, node: WorkerController) -> str:
        spark = [name for name in self.workqueue if name in SPARK]
        if node.gateway.id == FIRST_WORKER and spark:
            return spark[0]
        others = [name for name in self.workqueue if name not in SPARK]
        busy = sum(self._load(each) for each in self.nodes if each is not node)
        costs = [(name, self._durations.of(name)) for name in others or spark]
        return chosen(costs, self._processors - busy)

    def _load(self, node: WorkerController) -> float:
        """Return the number of processors that the worker's running group keeps busy."""
        units: Sequence[tuple[str, dict[str, bool]]] = list(self.assigned_work[node].items())
        running = (name for name, unit in units if not all(unit.values()))
        name = next(running, None)
        return 0.0 if name is None else self._durations.of(name).load
