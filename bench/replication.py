"""Measures the cost of replication: `python -m bench.replication`.

A cluster has three nodes, each a broker and a controller in its own process, with the default
settings. The topic has three partitions with three replicas. Each node leads one of them. One
producer (librdkafka, idempotent, acks=all) sends records of 1 KB:

- load: as fast as possible. The result is the CPU time of all nodes for each GB of records.
- acks: at a constant rate, each record in a batch of its own. The result is the time from the send
  of a record to its acknowledgement.

Each trial uses a new cluster, and begins with unmeasured load. The trials of both kinds of clusters
alternate. A trial that fails does not end the others.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial

from compat.lab.broker import BrokerFailed
from compat.lab.cluster import BOTH_ROLES, Cluster
from compat.lab.toolchain import Missing
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.build import prepared
from bench.clusters import Trials, Value, in_turns, new_cluster
from bench.figures import Quantity
from bench.machine import facts
from bench.programs import CANNOT_RUN, add_common_options, run

NODES = (1, 2, 3)
TOPIC = "replication"
RECORD_BYTES = 1000
MEGABYTES = 300
WARM_UP_MEGABYTES = 600
RATE = 200
SECONDS = 10.0
PATIENCE_SECONDS = 180.0

CPU = Quantity("CPU of all nodes", "s/GB", limit=0.6)
RATE_OF_LOAD = Quantity("rate of load", "MB/s", higher_is_better=True, primary=False)
P50 = Quantity("p50 of acks", "ms", primary=False)
P99 = Quantity("p99 of acks", "ms", limit=1.0)


class Load:
    """A producer that counts failures and the times of acknowledgements."""

    def __init__(self, cluster: Cluster, linger_ms: float) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "queue.buffering.max.kbytes": 65_536,
            }
        )
        self._values = [os.urandom(RECORD_BYTES) for _ in range(100)]
        self._failed = 0

    def send(self, megabytes: int) -> float:
        """Send records as fast as possible. Return the seconds until all are acknowledged."""
        producer, values = self._producer, self._values
        started = time.monotonic()
        for number in range(megabytes * 1_000_000 // RECORD_BYTES):
            while True:
                try:
                    producer.produce(
                        TOPIC,
                        values[number % 100],
                        partition=number // 100 % len(NODES),
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 100 == 0:
                producer.poll(0)
        self._finish()
        return time.monotonic() - started

    def acknowledgements_ms(self, rate: int, seconds: float) -> list[float]:
        """Send records at a rate. Return the times from send to acknowledgement, sorted."""
        times: list[float] = []
        begin = time.monotonic() + 0.1
        for number in range(int(rate * seconds)):
            due = begin + number / rate
            while (now := time.monotonic()) < due:
                self._producer.poll(min(due - now, 0.01))

            def delivered(error: KafkaError | None, message: Message, due: float = due) -> None:
                times.append((time.monotonic() - due) * 1000)
                self._delivered(error, message)

            self._producer.produce(
                TOPIC,
                self._values[number % 100],
                partition=number % len(NODES),
                on_delivery=delivered,
            )
            self._producer.poll(0)
        self._finish()
        return sorted(times)

    def _finish(self) -> None:
        left = self._producer.flush(PATIENCE_SECONDS)
        if left or self._failed:
            raise BrokerFailed(f"{left} records without a response, {self._failed} failed")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failed += error is not None


def measure(
    cluster: Cluster, megabytes: int, warm_up_megabytes: int, seconds: float
) -> list[Value]:
    """Measure a running cluster."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    topic = NewTopic(TOPIC, len(replicas), replica_assignment=replicas)
    admin.create_topics([topic], request_timeout=PATIENCE_SECONDS)[TOPIC].result()
    cluster.wait_until_in_sync([TOPIC])
    load = Load(cluster, linger_ms=5)
    load.send(warm_up_megabytes)
    before = sum(node.cpu_seconds() for node in cluster.brokers)
    duration = load.send(megabytes)
    cpu = sum(node.cpu_seconds() for node in cluster.brokers) - before
    single = Load(cluster, linger_ms=0)
    single.acknowledgements_ms(RATE, 2.0)
    times = single.acknowledgements_ms(RATE, seconds)
    return [
        Value(CPU, cpu / megabytes * 1000),
        Value(RATE_OF_LOAD, megabytes / duration),
        Value(P50, times[len(times) // 2]),
        Value(P99, times[len(times) * 99 // 100]),
    ]


def main() -> int:
    """Run all trials, and store the result. Return the exit code: 2 if a trial has failed."""
    options = _parser().parse_args()
    machine = facts()
    trials = Trials("replication")
    try:
        build = prepared(options.mode)
        for number in range(options.rounds):
            for role in in_turns(number, alone=options.alone):
                trials.run(
                    f"{number + 1}/{options.rounds} {role:6}",
                    role,
                    partial(new_cluster, role, build, roles=dict.fromkeys(NODES, BOTH_ROLES)),
                    partial(
                        measure,
                        megabytes=options.megabytes,
                        warm_up_megabytes=options.warm_up,
                        seconds=options.seconds,
                    ),
                )
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    is_trial = options.megabytes != MEGABYTES or options.alone
    return trials.conclude(machine, options, is_trial=is_trial)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.replication", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="measured load")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_MEGABYTES, help="in megabytes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measured acks")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    add_common_options(parser, rounds=3)
    return parser


if __name__ == "__main__":
    run(main)
