"""Decides which tests run in the same worker, and which tests begin first.

The tests of a file run in the same worker, because they share a broker or a Java process, which is
expensive to start. Some files run in the same worker for the same reason. The scheduler computes
the group of a test from the test's id, because pytest 9.2 ignores the groups that pytest-xdist 3.8
writes into the ids.

Only `SPARK_WORKERS` workers run tests until the tests of Spark have ended. The tests of Spark use both
cores of a small machine, and Spark ends a streaming query whose Python worker has not connected after
ten seconds. The later tests often wait, so that another worker helps.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS = {
    "tests/spark/test_demo.py::test_interrupted_in_the_middle": "the interrupted demo",
    "tests/spark/test_without_java.py": "Spark without Java",
    "tests/spark": "a Spark session",
    "tests/oracle/test_java": "a process of Java",
}
"""Groups by the beginning of the tests' ids. If several entries match, the first entry counts."""
SPARK = "tests/spark"
SPARK_WORKERS = 2
FIRST = (
    SPARK,
    "tests/oracle",
    "tests/crash",
    "tests/anomalies",
    "tests/log/cleaner/test_java.py",
    "tests/build",
)
"""The longest tests begin first. Otherwise one worker would still run them when the others end."""


def group(nodeid: str) -> str:
    """Return the group of a test: an entry of `GROUPS`, or by default the test's file."""
    found = (name for beginning, name in GROUPS.items() if nodeid.startswith(beginning))
    return next(found, nodeid.partition("::")[0])


def rank(nodeid: str) -> int:
    """Return the rank of a test. Tests with a lower rank begin first."""
    ranks = (number for number, each in enumerate(FIRST) if nodeid.startswith(each))
    return next(ranks, len(FIRST))


class GroupScheduling(LoadScopeScheduling):
    """Gives each group to one worker, in the order in which the groups were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if not self._has_to_wait(node):
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._has_to_wait(node):
            super()._assign_work_unit(node)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """The first test after those of Spark starts the workers that have waited."""
        super().mark_test_complete(node, item_index, duration)
        for each in self.nodes[SPARK_WORKERS:]:
            if not self.assigned_work[each] and not self._has_to_wait(each):
                for _ in range(2):  # a worker runs a test when it has got the next one
                    super()._reschedule(each)

    def _has_to_wait(self, node: WorkerController) -> bool:
        """Whether the tests of Spark have not ended, and other workers run them."""
        if node in self.nodes[:SPARK_WORKERS]:
            return False
        units = [self.workqueue, *self.assigned_work.values()]
        return any(
            nodeid.startswith(SPARK) and not completed
            for unit in units
            for scope in unit.values()
            for nodeid, completed in scope.items()
        )
