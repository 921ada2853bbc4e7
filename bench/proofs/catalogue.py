"""Which proofs there are: what each runs, and how often."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
QUICK_PART = 50
"""`--quick` does this part of the work, to try a proof out."""


@dataclass(frozen=True)
class Proof:
    """One command, whose exit code tells whether it holds."""

    name: str
    what: str
    """What is done `count` times, for people."""
    count: int
    command: tuple[str, ...]
    variable: str | None = None
    """The environment variable that takes the count; None if the command has it in its words."""
    divisor: int = 1
    """The variable gets the count divided by this: it counts for each client of several."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """More environment variables."""
    counted_in_words: bool = False
    """The count is the last word of the command."""
    quick_words: tuple[str, ...] = ()
    """Appended to the command by `--quick`."""

    def size(self, *, quick: bool) -> int:
        """How often it is done in one run."""
        if not quick or (self.variable is None and not self.counted_in_words):
            return self.count
        return self.divisor * max(2, self.count // self.divisor // QUICK_PART)

    def words(self, *, quick: bool) -> list[str]:
        """The command."""
        count = (str(self.size(quick=quick)),) if self.counted_in_words else ()
        return [*self.command, *count, *(self.quick_words if quick else ())]

    def environment(self, *, quick: bool) -> dict[str, str]:
        """Added to that of this process."""
        if self.variable is None:
            return dict(self.extra)
        return {**self.extra, self.variable: str(self.size(quick=quick) // self.divisor)}


def _pytest(*paths: str) -> tuple[str, ...]:
    return (*PYTEST, *paths)


def _module(name: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *words)


_KILLS = _pytest("tests/crash/test_kill_nine.py")
_POWER = _pytest("tests/log/test_power_loss.py", "tests/log/cleaner/test_power_loss.py")
_ONE_SCENARIO = ("--clients", "librdkafka", "--only", "headers*")

PROOFS = (
    Proof(
        "groups", "histories of groups compared with Apache Kafka", 2000,
        _pytest("tests/oracle/group_histories"), "ODRADEK_HISTORIES",
    ),
    Proof(
        "transactions", "histories of transactions compared with Apache Kafka", 2000,
        _pytest("tests/oracle/transactions"), "ODRADEK_TRANSACTION_HISTORIES",
    ),
    Proof(
        "files", "turns of Apache Kafka and a node on one data directory, twice", 20,
        _pytest("tests/oracle/files"), "ODRADEK_FILE_TURNS",
    ),
    Proof(
        "targets", "groups whose targets are compared with Apache Kafka's", 10_000,
        _pytest("tests/group/test_targets_as_kafka.py"), "ODRADEK_TARGET_GROUPS",
    ),
    Proof(
        "simulation", "simulated histories of transactions with crashes", 1000,
        _pytest("tests/transaction/test_simulation.py"), "ODRADEK_SEEDS",
    ),
    Proof(
        "node-simulation", "seeds of a simulated node, each played twice", 200,
        _module("tests.sim"), counted_in_words=True,
    ),
    Proof("kills-50", "kills of the node under load", 50, _KILLS, "ODRADEK_KILLS"),
    Proof("kills-100", "kills of the node under load", 100, _KILLS, "ODRADEK_KILLS"),
    Proof(
        "job-kills", "kills of jobs of three clients, or of the node", 300,
        _pytest("tests/crash/test_exactly_once.py"), "ODRADEK_JOB_KILLS", divisor=3,
    ),
    Proof(
        "demo", "interruptions of the demo", 3,
        _pytest("tests/spark/test_demo.py", "-k", "test_interrupted_in_the_middle"),
        "ODRADEK_DEMO_INTERRUPTIONS",
    ),
    Proof("power-losses", "worlds that lose power", 10_000, _POWER, "ODRADEK_POWER_LOSSES"),
    Proof(
        "anomalies", "seconds of concurrent clients and faults", 300,
        _pytest("tests/anomalies"), "ODRADEK_ANOMALY_SECONDS",
    ),
    Proof("fuzz", "runs of all invalid input", 1, _pytest("tests/bad_input", "tests/wire")),
    Proof("compat", "runs of all clients", 1, _module("compat"), quick_words=_ONE_SCENARIO),
    Proof(
        "compat-apache", "runs of all clients against Apache Kafka", 1,
        _module("compat", "--against", "apache"), quick_words=_ONE_SCENARIO,
    ),
    Proof("isolation", "benches", 1, _module("bench.isolation"), quick_words=("--quick",)),
    Proof("compaction", "benches", 1, _module("bench.compaction"), quick_words=("--quick",)),
    Proof("recovery", "benches", 1, _module("bench.recovery"), quick_words=("--quick",)),
    Proof("scale", "benches", 1, _module("bench.scale"), quick_words=("--quick",)),
)  # fmt: skip
BY_NAME = {each.name: each for each in PROOFS}
GROUPS = {"kills": ("kills-50", "kills-100")}
"""Names that stand for several."""


def chosen(names: list[str]) -> list[Proof]:
    """The proofs of these names; all for none.

    Raises:
        KeyError: there is no proof of a name.
    """
    wanted = [one for name in names for one in GROUPS.get(name, (name,))]
    return [BY_NAME[name] for name in wanted] if wanted else list(PROOFS)
