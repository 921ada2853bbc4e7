"""Trials with clusters of processes, for `bench.failover`, `bench.replication` and `bench.shards`.

Each trial has a new cluster. A trial that fails does not end the others: the stored result names
it, and the exit code of the program is 2.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from compat.lab.apache_kafka import JVM_OPTIONS, ApacheKafka
from compat.lab.broker import BrokerFailed
from compat.lab.cluster import APACHE, ODRADEK, ApacheMember, Cluster, Member, Node, OdradekMember
from compat.lab.dialogue import DialogueError, Refused
from compat.lab.odradek_node import OdradekNode
from confluent_kafka import KafkaException

from bench.build import Build
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.programs import CANNOT_RUN
from bench.results import conclude

FAILURES = (BrokerFailed, DialogueError, KafkaException, OSError, Refused)
"""What ends a trial."""
REASON_LENGTH_MAX = 1000


class MeasuredApacheMember(ApacheMember):
    """A node with the JVM options of Apache Kafka's start script."""

    jvm_options = JVM_OPTIONS


class Value(NamedTuple):
    """What a trial has measured. `missing` is not empty if the trial did not end in time."""

    quantity: Quantity
    value: float
    missing: str = ""


def new_cluster(
    role: str,
    build: Build,
    path: Path,
    roles: Mapping[int, str],
    settings: Mapping[str, str] | None = None,
) -> Cluster:
    """Return a cluster that is not started. `roles` has the roles of each node by its id."""
    program = ODRADEK if role == OURS else APACHE
    members = {node_id: Member(program, each) for node_id, each in roles.items()}
    kinds: dict[str, type[Node]] = {
        ODRADEK: build.measured(OdradekMember),
        APACHE: MeasuredApacheMember,
    }
    return Cluster(path, members, dict(settings or {}), kinds)


def in_turns(number: int, *, alone: bool = False) -> Iterator[str]:
    """Yield the roles of a round. Every second round begins with the other one."""
    roles = (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS)
    yield from (OURS,) if alone else roles


class Trials:
    """The trials of a program, and what they have measured."""

    def __init__(self, bench: str, directory: Path | None = None) -> None:
        """`directory` is the place of the clusters' files."""
        self.failures: list[str] = []
        """The names of the trials that have failed."""
        self._bench = bench
        self._directory = directory
        self._figures: dict[str, Figure] = {}
        self._described: dict[str, object] = {}

    def run(
        self,
        name: str,
        role: str,
        make: Callable[[Path], Cluster],
        measure: Callable[[Cluster], Iterable[Value]],
    ) -> None:
        """Run a trial in a new cluster. `name` is printed with what the trial has measured."""
        started = time.monotonic()
        prefix = f"odradek-{self._bench}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=self._directory) as path:
            cluster = make(Path(path))
            self._described[role] = next(iter(cluster.brokers)).described()
            try:
                cluster.start()
                values = list(measure(cluster))
            except FAILURES as reason:
                self.failures.append(name)
                print(f"{name}: failed: {str(reason)[:REASON_LENGTH_MAX]}", flush=True)
                return
            finally:
                for node in cluster.nodes.values():
                    node.kill()
        seconds = time.monotonic() - started
        for quantity, value, missing in values:
            figure = self._figures.setdefault(quantity.name, Figure(self._bench, quantity))
            figure.add(role, value, missing)
            text = f"{quantity.name}: {value:.4g} {quantity.unit} {missing}".rstrip()
            print(f"{name}: {text} ({seconds:.0f} s in total)", flush=True)

    def conclude(
        self,
        machine: Mapping[str, object],
        options: argparse.Namespace,
        *,
        is_trial: bool,
        facts_of_setup: Mapping[str, object] | None = None,
    ) -> int:
        """Store the result, and return the exit code: 2 if a trial has failed."""
        setup = {
            "kind": "setup",
            **self._described,
            "rounds": options.rounds,
            **(facts_of_setup or {}),
            "failures": self.failures,
        }
        names = {OURS: OdradekNode.name, THEIRS: ApacheKafka.name}
        figures = [*self._figures.values()]
        code = conclude(figures, names, machine, setup, is_trial=is_trial, output=options.output)
        for each in self.failures:
            print(f"failed: {each}", file=sys.stderr)
        return CANNOT_RUN if self.failures else code
