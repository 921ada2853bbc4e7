"""Which tests share a worker, and which begin first, when several workers run them.

The tests of a file stay together, because they share what is expensive to start: a broker, a
process of Java. Some files stay together for the same reason. The scheduler asks the ids of the tests for
their groups: pytest 9.2 ignores the groups that pytest-xdist 3.8 writes into them.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "tests/spark/test_demo.py::test_killed_in_the_middle": "the killed demo",
    "tests/spark/test_without_java.py": "Spark without Java",
    "tests/spark": "a Spark session",
    "tests/oracle/test_java": "a process of Java",
}
"""By the beginnings of the tests' ids; the first one counts."""
FIRST = (
    "tests/spark",
    "tests/oracle",
    "tests/crash",
    "tests/anomalies",
    "tests/log/cleaner/test_java.py",
    "tests/build",
)
"""What takes longest begins first, so that no worker is left alone with it in the end."""


def group(nodeid: str) -> str:
    """The group of a test: its file, or what it shares with other files."""
    found = (name for beginning, name in GROUPS.items() if nodeid.startswith(beginning))
    return next(found, nodeid.partition("::")[0])


def rank(nodeid: str) -> int:
    """Tests with a lower rank begin first."""
    ranks = (number for number, each in enumerate(FIRST) if nodeid.startswith(each))
    return next(ranks, len(FIRST))


class GroupScheduling(LoadScopeScheduling):
    """Gives each group to one worker, in the order in which the groups were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
