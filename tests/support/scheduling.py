"""Decides which tests run in the same worker, and which tests begin first.

The tests of a file run in the same worker, because they share a broker or a Java process, which is
expensive to start. Some files run in the same worker for the same reason. The scheduler computes
the group of a test from the test's id, because pytest 9.2 ignores the groups that pytest-xdist 3.8
writes into the ids.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "tests/spark/test_demo.py::test_killed_in_the_middle": "the killed demo",
    "tests/spark/test_without_java.py": "Spark without Java",
    "tests/spark": "a Spark session",
    "tests/oracle/test_java": "a process of Java",
}
"""Groups by the beginning of the tests' ids. If several entries match, the first entry counts."""
FIRST = (
    "tests/spark",
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
