"""Measures how long a cluster does not serve after a failure: `python -m bench.failover`.

A cluster has three controllers and three brokers, each in its own process, with the default
settings, except that brokers send heartbeats more often. (A broker is fenced 9 s after its last
heartbeat. With the default interval of 2 s, the times would differ by up to 2 s by chance.) The
topics have three replicas, and the first replica leads every partition.

- leader: the broker that leads all partitions is killed. The time ends when a record of each
  partition is acknowledged with acks=all.
- shutdown: the broker that leads all partitions is stopped with SIGTERM under load. The result has
  the time until the process has ended, and the number of records that were not acknowledged.
- controller: the active controller is killed. The time ends when a topic is created.

The client is Apache Kafka's Java producer with its default settings, except for the size of its
buffer, which has room for one batch of each partition. It puts the records of many partitions into
one request. librdkafka sends one request for each partition, so with 5 000 partitions it would
measure the time of 5 000 requests. Before a failure, the producer writes to all partitions several
times, because the code of a new JVM is slow.

Each trial uses a new cluster. With few partitions the first trial is repeated. The trials of both
kinds of clusters alternate. A trial that does not end within its limit is a result: the table has
the limit, and what was missing then. By default the files are in memory if there is `/dev/shm`,
because a cluster has up to 90 000 of them, and some file systems need minutes to remove so many;
`--directory` names another place.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from compat.lab import java, maven
from compat.lab.broker import BrokerFailed
from compat.lab.cluster import Cluster
from compat.lab.dialogue import Dialogue
from compat.lab.toolchain import Missing
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.build import prepared
from bench.clusters import Trials, Value, in_turns, new_cluster
from bench.environment import JAVA_SOURCES
from bench.figures import Quantity
from bench.machine import facts
from bench.programs import CANNOT_RUN, add_common_options, run

PARTITIONS = (1, 5000)
CONTROLLER_PARTITIONS = 10_000
AT_ONCE = 2000
"""The number of partitions in one request. Apache Kafka limits the number of records of a request."""
BROKERS = (1, 2, 3)
ROLES = {**dict.fromkeys((101, 102, 103), "controller"), **dict.fromkeys(BROKERS, "broker")}
LEADER = 1
TOPIC = "failover"
SETTINGS = {"broker.heartbeat.interval.ms": "200"}
LIMIT_SECONDS = 120.0
"""A trial that takes longer has not ended in time. It is also the default `delivery.timeout.ms`."""
SETUP_SECONDS_MAX = 180.0
FEW, TRIALS_WITH_FEW = 10, 2
"""With so few partitions, the trial with the killed leader runs several times in each round, because
the moment of the client's next retry is random."""
WARM_UP_WRITES = 3
"""How often the producer writes to all partitions before the failure."""
PAUSE_MS = 5
POLL_SECONDS = 0.02
PRODUCER = {"buffer.memory": str(256 << 20)}
CLIENT_JVM_OPTIONS = ("-Xmx1G", "-Xms1G")
MEMORY = Path("/dev/shm")

LEADER_KILLED = Quantity("leader killed, {} partitions", "s", limit=1.0)
SHUTDOWN = Quantity("controlled shutdown, {} partitions", "s", limit=1.0)
FAILED = Quantity("failed records, {} partitions", "records", most=0)
CONTROLLER_KILLED = Quantity("controller killed, {} partitions", "s", limit=1.0)


def create(cluster: Cluster, partitions: int) -> None:
    """Create topics with this number of partitions in total, all led by `LEADER`."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name, count in topics_of(partitions).items():
        topic = NewTopic(name, count, replica_assignment=[list(BROKERS)] * count)
        admin.create_topics([topic], request_timeout=SETUP_SECONDS_MAX)[name].result()
        cluster.wait_until_in_sync([name])


def topics_of(partitions: int) -> dict[str, int]:
    """Return topics with this number of partitions in total: the number of each by name."""
    full, rest = divmod(partitions, AT_ONCE)
    counts = [AT_ONCE] * full + ([rest] if rest else [])
    return {f"{TOPIC}-{number}": count for number, count in enumerate(counts)}


class Load:
    """The producer of one trial, in the process of the client."""

    def __init__(self, client: Dialogue, cluster: Cluster, partitions: int) -> None:
        self._client = client
        self._partitions = partitions
        client.ask("open", bootstrap=cluster.bootstrap, properties=PRODUCER)

    def write_to_all(self, limit_seconds: float) -> dict[str, Any]:
        """Write a record to each partition; see `writeToAll` in bench/java/FirstWrites.java."""
        return self._client.ask(
            "write_to_all",
            limit_seconds + 60.0,
            topics=topics_of(self._partitions),
            seconds=limit_seconds,
        )

    def warm_up(self) -> None:
        """Write to all partitions several times.

        Raises:
            BrokerFailed: a write was not acknowledged.
        """
        for _ in range(WARM_UP_WRITES):
            missing = self.write_to_all(SETUP_SECONDS_MAX)["missing"]
            if missing:
                raise BrokerFailed(f"{missing} partitions of a cluster without failures")

    def begin(self) -> None:
        """Begin to write a record to one partition every few milliseconds."""
        self._client.ask("begin", topic=f"{TOPIC}-0", every_ms=PAUSE_MS)

    def end(self) -> int:
        """End this, and return how many records were not acknowledged."""
        return int(self._client.ask("end", LIMIT_SECONDS + 60.0)["failed"])

    def close(self) -> None:
        """Close the producer without waiting for what it still has to send."""
        self._client.ask("close")


@contextlib.contextmanager
def loaded(client: Dialogue, cluster: Cluster, partitions: int) -> Iterator[Load]:
    """Create the partitions. Yield a producer that has written to all of them."""
    create(cluster, partitions)
    load = Load(client, cluster, partitions)
    try:
        load.warm_up()
        yield load
    finally:
        load.close()


def leader_failure(client: Dialogue, cluster: Cluster, partitions: int) -> list[Value]:
    """Kill the leader. Return the seconds until all partitions have acknowledged a record."""
    with loaded(client, cluster, partitions) as load:
        cluster.nodes[LEADER].kill()
        answer = load.write_to_all(LIMIT_SECONDS)
    if answer["missing"]:
        missing = f"{answer['missing']} of {partitions} partitions without a write"
        return [Value(LEADER_KILLED, LIMIT_SECONDS, missing)]
    return [Value(LEADER_KILLED, answer["seconds"])]


def shutdown(client: Dialogue, cluster: Cluster, partitions: int) -> list[Value]:
    """Stop the leader under load. Return the seconds, and the number of failed records."""
    with loaded(client, cluster, partitions) as load:
        load.begin()
        process = cluster.nodes[LEADER].process
        started = time.monotonic()
        process.terminate()
        seconds, missing = 0.0, ""
        while process.is_running() and process.status() != "zombie":
            seconds = time.monotonic() - started
            if seconds > LIMIT_SECONDS:
                seconds, missing = LIMIT_SECONDS, "the process still runs"
                break
            time.sleep(POLL_SECONDS)
        return [Value(SHUTDOWN, seconds, missing), Value(FAILED, load.end())]


def controller_failure(client: Dialogue, cluster: Cluster, partitions: int) -> list[Value]:
    """Kill the active controller. Return the seconds until a topic is created."""
    create(cluster, partitions)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("before", 1, 3)])["before"].result()
    cluster.nodes[cluster.active_controller()].kill()
    started = time.monotonic()
    number = 0
    while time.monotonic() < started + LIMIT_SECONDS:
        number += 1
        topic = NewTopic(f"after-{number}", 1, 3)
        try:
            admin.create_topics([topic], request_timeout=5.0)[topic.topic].result()
        except KafkaException:
            time.sleep(POLL_SECONDS)
            continue
        return [Value(CONTROLLER_KILLED, time.monotonic() - started)]
    return [Value(CONTROLLER_KILLED, LIMIT_SECONDS, "no topic could be created")]


Trial = Callable[[Dialogue, Cluster, int], list[Value]]


def named(trial: Trial, client: Dialogue, partitions: int, cluster: Cluster) -> Iterator[Value]:
    """Run a trial. The names of the values contain the number of partitions."""
    for each in trial(client, cluster, partitions):
        name = each.quantity.name.format(partitions)
        yield each._replace(quantity=replace(each.quantity, name=name))


@contextlib.contextmanager
def java_client(directory: Path) -> Iterator[Dialogue]:
    """Run the Java client."""
    jars = maven.kafka_jars()
    classes = java.compiled(jars, JAVA_SOURCES)
    words = java.command("Load", jars, classes, options=CLIENT_JVM_OPTIONS)
    client = Dialogue(words, log=directory / "load.log")
    try:
        yield client
    finally:
        client.close()


def main() -> int:
    """Run all trials, and store the result. Return the exit code: 2 if a trial has failed."""
    options = _parser().parse_args()
    trials: list[tuple[Trial, int]] = [
        *(
            (leader_failure, each)
            for each in options.partitions
            for _ in range(TRIALS_WITH_FEW if each <= FEW else 1)
        ),
        *((shutdown, each) for each in options.partitions),
        (controller_failure, options.controller_partitions),
    ]
    machine = facts()
    results = Trials("failover", options.directory)
    try:
        build = prepared(options.mode)
        with (
            tempfile.TemporaryDirectory(prefix="odradek-failover-") as path,
            java_client(Path(path)) as client,
        ):
            for number in range(options.rounds):
                for trial, partitions in trials:
                    for role in in_turns(number, alone=options.alone):
                        results.run(
                            f"{number + 1}/{options.rounds} {role:6} {trial.__name__} {partitions}",
                            role,
                            partial(new_cluster, role, build, roles=ROLES, settings=SETTINGS),
                            partial(named, trial, client, partitions),
                        )
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    is_full = (
        tuple(options.partitions) == PARTITIONS
        and options.controller_partitions == CONTROLLER_PARTITIONS
        and not options.alone
    )
    return results.conclude(
        machine,
        options,
        is_trial=not is_full,
        facts_of_setup={
            "producer": PRODUCER,
            "client_jvm_options": list(CLIENT_JVM_OPTIONS),
            "in_memory": options.directory == MEMORY,
            "limit_seconds": LIMIT_SECONDS,
        },
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--controller-partitions", type=int, default=CONTROLLER_PARTITIONS)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument(
        "--directory",
        type=Path,
        default=MEMORY if MEMORY.is_dir() else None,
        help="where the clusters have their files",
    )
    add_common_options(parser, rounds=2)
    return parser


if __name__ == "__main__":
    run(main)
