"""Measures how long a cluster does not serve after a failure: `python -m bench.failover`.

A cluster has three controllers and three brokers, each in its own process, with the default
settings. The topic has three replicas, and its first replica leads every partition.

- leader: the broker that leads all partitions is killed. The time ends when a record of each
  partition is acknowledged with acks=all.
- controller: the active controller is killed. The time ends when a topic is created.
- shutdown: the broker that leads all partitions is stopped with SIGTERM under load. The result has
  the time until the process has ended, and the number of records that were not acknowledged.

Each trial uses a new cluster. The trials of both kinds of clusters alternate.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from compat.lab.apache_kafka import JVM_OPTIONS, ApacheKafka
from compat.lab.broker import BrokerFailed
from compat.lab.cluster import APACHE, ODRADEK, ApacheMember, Cluster, Member, Node, OdradekMember
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.build import Build, add_mode, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.results import conclude

PARTITIONS = (1, 5000)
CONTROLLER_PARTITIONS = 10_000
AT_ONCE = 2000
"""The number of partitions in one request. Apache Kafka limits the number of records of a request."""
CONTROLLERS = (101, 102, 103)
BROKERS = (1, 2, 3)
LEADER = 1
TOPIC = "failover"
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 0.02


class MeasuredApacheMember(ApacheMember):
    """A node with the JVM options of Apache Kafka's start script."""

    jvm_options = JVM_OPTIONS


def new_cluster(role: str, build: Build, path: Path) -> Cluster:
    """Return a cluster that is not started."""
    program = ODRADEK if role == OURS else APACHE
    members = {
        **{each: Member(program, "controller") for each in CONTROLLERS},
        **{each: Member(program, "broker") for each in BROKERS},
    }
    kinds: dict[str, type[Node]] = {
        ODRADEK: build.measured(OdradekMember),
        APACHE: MeasuredApacheMember,
    }
    return Cluster(path, members, {}, kinds)


def create(cluster: Cluster, partitions: int) -> None:
    """Create topics with this number of partitions in total, all led by `LEADER`."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for number, count in enumerate(_pieces(partitions)):
        replicas = [list(BROKERS)] * count
        topic = NewTopic(f"{TOPIC}-{number}", count, replica_assignment=replicas)
        admin.create_topics([topic], request_timeout=PATIENCE_SECONDS)[topic.topic].result()
        cluster.wait_until_in_sync([topic.topic])


def _pieces(partitions: int) -> list[int]:
    full, rest = divmod(partitions, AT_ONCE)
    return [AT_ONCE] * full + ([rest] if rest else [])


class Load:
    """An idempotent producer with acks=all."""

    def __init__(self, cluster: Cluster) -> None:
        self.failed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def send_to_all(self, partitions: int) -> None:
        """Write a record to each partition, and wait until all are acknowledged.

        Raises:
            RuntimeError: some are not acknowledged in `PATIENCE_SECONDS`.
        """
        for number, count in enumerate(_pieces(partitions)):
            for index in range(count):
                self.send(f"{TOPIC}-{number}", index)
        left = self._producer.flush(PATIENCE_SECONDS)
        if left or self.failed:
            raise RuntimeError(f"{left} records without a response, {self.failed} failed")

    def send(self, topic: str, partition: int) -> None:
        """Write a record."""
        self._producer.produce(topic, b"x" * 100, partition=partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None


def leader_failure(cluster: Cluster, partitions: int) -> dict[str, float]:
    """Kill the leader. Return the seconds until all partitions have acknowledged a record."""
    create(cluster, partitions)
    load = Load(cluster)
    load.send_to_all(partitions)
    cluster.nodes[LEADER].kill()
    started = time.monotonic()
    load.send_to_all(partitions)
    return {f"leader killed, {partitions} partitions": time.monotonic() - started}


def controller_failure(cluster: Cluster, partitions: int) -> dict[str, float]:
    """Kill the active controller. Return the seconds until a topic is created."""
    create(cluster, partitions)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    cluster.nodes[cluster.active_controller()].kill()
    started = time.monotonic()
    number = 0
    while True:
        number += 1
        topic = NewTopic(f"after-{number}", 1, 3)
        try:
            admin.create_topics([topic], request_timeout=5.0)[topic.topic].result()
        except KafkaException:
            if time.monotonic() > started + PATIENCE_SECONDS:
                raise
            time.sleep(POLL_SECONDS)
            continue
        return {f"controller killed, {partitions} partitions": time.monotonic() - started}


def shutdown(cluster: Cluster, partitions: int) -> dict[str, float]:
    """Stop the leader under load. Return the seconds, and the number of failed records."""
    create(cluster, partitions)
    load = Load(cluster)
    load.send_to_all(partitions)
    process = cluster.nodes[LEADER].process
    started = time.monotonic()
    process.terminate()
    while process.is_running() and process.status() != "zombie":
        load.send(f"{TOPIC}-0", 0)
        time.sleep(0.005)
    seconds = time.monotonic() - started
    load.send_to_all(partitions)
    return {
        f"controlled shutdown, {partitions} partitions": seconds,
        f"failed records, {partitions} partitions": float(load.failed),
    }


Trial = Callable[[Cluster, int], dict[str, float]]


def main() -> int:
    """Run all trials, and store the result. Return the exit code."""
    options = _parser().parse_args()
    trials: list[tuple[Trial, int]] = [
        *((leader_failure, each) for each in options.partitions),
        *((shutdown, each) for each in options.partitions),
        (controller_failure, options.controller_partitions),
    ]
    figures: dict[str, Figure] = {}
    machine = facts()
    try:
        build = prepared(options.mode)
        described: dict[str, object] = {}
        for number in range(options.rounds):
            roles = (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS)
            for trial, partitions in trials:
                for role in (OURS,) if options.alone else roles:
                    with tempfile.TemporaryDirectory(prefix="odradek-failover-") as path:
                        cluster = new_cluster(role, build, Path(path))
                        described[role] = cluster.nodes[LEADER].described()
                        try:
                            cluster.start()
                            sample = trial(cluster, partitions)
                        finally:
                            cluster.close()
                    print(f"{number + 1}/{options.rounds} {role:8} {sample}", flush=True)
                    for name, value in sample.items():
                        unit = "records" if name.startswith("failed") else "s"
                        quantity = Quantity(name, unit, limit=1.0)
                        figure = figures.setdefault(name, Figure("failover", quantity))
                        figure.values.setdefault(role, []).append(value)
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    setup = {"kind": "setup", **described, "rounds": options.rounds}
    names = {OURS: OdradekNode.name, THEIRS: ApacheKafka.name}
    is_trial = tuple(options.partitions) != PARTITIONS
    return conclude(
        [*figures.values()], names, machine, setup, is_trial=is_trial, output=options.output
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--controller-partitions", type=int, default=CONTROLLER_PARTITIONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
