"""Clients under a quota, compared with Apache Kafka: `python -m bench.quotas`.

Four producers with one client id send as fast as they can, under a quota of 10 MB/s for this client
id. After a warm-up, in which they use the burst that a quota allows, their acknowledged bytes are
counted for a minute. Four consumers with another client id do the same with fetches.
The rates must differ from the quota by at most 10 %, and no client may report an error.

Then a quiet tenant sends a thousand records per second: first alone, and then beside the four
producers, which are under their quota. The results are the 99th percentiles of the latency of the
quiet tenant in both phases and their ratio. A bare timer shows the noise of the machine (see
`bench.isolation`). Without the quota, the four producers would use both processors.

The four clients are processes with librdkafka, at the lowest priority: they represent other machines,
and take no processor time from the broker or from the measured producer, which has the broker's
priority (as in `bench.isolation`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

from bench.environment import Contender, Environment
from bench.figures import Figure, Quantity
from bench.isolation import tail
from bench.programs import compare, parse_options, run
from odradek.client.admin.quotas import alter_quotas
from odradek.client.cluster import Cluster

CLIENTS = 4
QUOTA = 10_000_000
"""Bytes per second."""
VALUE_BYTES = 1000
WARM_UP_SECONDS, SECONDS, QUICK_SECONDS = 15, 60, 12
"""The burst of a quota is ten times its rate. It takes as long until the rate is that of the quota. Then
clients send a burst whenever the windows with the last one are over. With Kafka's eleven windows of a
second this is the case about every twelve seconds: a window counts until its last value is eleven
seconds old. So five such periods are counted. The quick run counts one."""
FETCHED_RECORDS = 60_000
"""The records of each partition, which consumers read again and again."""
DEVIATION_MAX = 10.0
TIMES_MAX = 2.0
LOWEST_PRIORITY = 19

PRODUCED = Quantity("produced by four clients", "MB/s", primary=False)
PRODUCED_DEVIATION = Quantity("deviation from the produce quota", "%", most=DEVIATION_MAX)
FETCHED = Quantity("fetched by four clients", "MB/s", primary=False)
FETCHED_DEVIATION = Quantity("deviation from the fetch quota", "%", most=DEVIATION_MAX)
ERRORS = Quantity("errors of clients", "", most=0)
QUIET = Quantity("quiet tenant p99, alone", "ms")
BESIDE = Quantity("quiet tenant p99, beside", "ms")
TIMES = Quantity("p99 beside / alone", "times", most=TIMES_MAX)
QUIET_TIMER = Quantity("bare timer p99, alone", "ms")
BESIDE_TIMER = Quantity("bare timer p99, beside", "ms")
QUANTITIES = [
    *(PRODUCED, PRODUCED_DEVIATION, FETCHED, FETCHED_DEVIATION, ERRORS),
    *(QUIET, BESIDE, TIMES, QUIET_TIMER, BESIDE_TIMER),
]


class Counted(NamedTuple):
    """What one client did."""

    bytes: int
    """Bytes of values between the two times."""
    errors: list[str]


def produce(bootstrap: str, client_id: str, topic: str, begin: float, end: float) -> Counted:
    """Send as fast as possible until `end`; count what is acknowledged from `begin` on.

    The times are those of the monotonic clock, which all processes share.
    """
    from confluent_kafka import Producer

    os.nice(LOWEST_PRIORITY)
    counted, errors = 0, []

    def delivered(error: object, message: Any) -> None:
        nonlocal counted
        now = time.monotonic()
        if error is not None:
            errors.append(str(error))
        elif begin <= now < end:
            counted += VALUE_BYTES

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "acks": "1",
            "linger.ms": 20,
            "batch.size": 100_000,
            "queue.buffering.max.kbytes": 2_000,
            "error_cb": lambda error: errors.append(str(error)),
            "log_level": 0,
        }
    )
    value = os.urandom(VALUE_BYTES)
    while time.monotonic() < end:
        try:
            producer.produce(topic, value, on_delivery=delivered)
        except BufferError:
            producer.poll(0.05)
    producer.purge()
    return Counted(
        counted, [each for each in errors if "_PURGE" not in each and "Purged" not in each]
    )


def consume(
    bootstrap: str, client_id: str, topic: str, partition: int, begin: float, end: float
) -> Counted:
    """Read a partition again and again until `end`; count what arrives from `begin` on."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    os.nice(LOWEST_PRIORITY)
    counted, errors = 0, []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 1_000,
            "fetch.message.max.bytes": 200_000,
        }
    )
    start = TopicPartition(topic, partition, 0)
    consumer.assign([start])
    while time.monotonic() < end:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                if begin <= time.monotonic() < end:
                    counted += len(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.assign([start])
            else:
                errors.append(str(error))
    consumer.close()
    return Counted(counted, errors)


@contextmanager
def limited(contender: Contender, client_id: str, name: str) -> Iterator[None]:
    """Set a quota for a client id, and remove it at the end."""
    entity = (("client-id", client_id),)
    with Cluster(contender.broker.bootstrap) as cluster:
        alter_quotas(cluster, entity, {name: float(QUOTA)})
        try:
            yield
        finally:
            alter_quotas(cluster, entity, {name: None})


class Load:
    """Four clients in processes of their own."""

    def __init__(self, seconds: float) -> None:
        self._processes = ProcessPoolExecutor(CLIENTS, get_context("spawn"))
        self._seconds = seconds
        self._running: list[Future[Counted]] = []

    def start(self, function: Callable[..., Counted], *arguments: Any, each: bool = False) -> float:
        """Start the clients; return the time at which their warm-up is over.

        With `each`, a client gets its number as a further argument.
        """
        begin = time.monotonic() + WARM_UP_SECONDS
        end = begin + self._seconds
        for number in range(CLIENTS):
            own = (number,) if each else ()
            self._running.append(self._processes.submit(function, *arguments, *own, begin, end))
        return begin

    def results(self) -> tuple[float, list[str]]:
        """Wait for the clients; return their rate in MB/s, and their errors."""
        done = [each.result() for each in self._running]
        rate = sum(each.bytes for each in done) / self._seconds / 1e6
        return rate, [error for each in done for error in each.errors]

    def close(self) -> None:
        """End the processes."""
        self._processes.shutdown()


@contextmanager
def load(seconds: float) -> Iterator[Load]:
    """Yield four clients, and end their processes."""
    made = Load(seconds)
    try:
        yield made
    finally:
        made.close()


def deviation(rate: float) -> float:
    """Return how much a rate in MB/s differs from the quota, in percent of the quota."""
    return abs(rate * 1e6 - QUOTA) / QUOTA * 100


def one_round(
    environment: Environment, contender: Contender, seconds: float
) -> Mapping[str, float]:
    """Run all phases for a broker, and return the values of `QUANTITIES`."""
    bootstrap = contender.broker.bootstrap
    errors: list[str] = []
    settings = {"retention.bytes": "200000000", "segment.bytes": "100000000"}
    with environment.topic(contender, CLIENTS, settings) as topic:
        with limited(contender, "shared", "producer_byte_rate"), load(seconds) as producers:
            producers.start(produce, bootstrap, "shared", topic)
            produced, failed = producers.results()
            errors += failed
        environment.let_settle()
        with environment.topic(contender) as own:
            quiet = tail(environment, contender, own)
            with limited(contender, "noisy", "producer_byte_rate"), load(seconds) as noisy:
                begin = noisy.start(produce, bootstrap, "noisy", topic)
                time.sleep(begin - time.monotonic())
                beside = tail(environment, contender, own)
                errors += noisy.results()[1]
    with environment.topic(contender, CLIENTS) as topic:
        environment.load(
            contender,
            "produce",
            topic=topic,
            records=CLIENTS * FETCHED_RECORDS,
            size=VALUE_BYTES,
            keys=0,
            properties={"acks": "1", "linger.ms": "20", "batch.size": "100000"},
        )
        with limited(contender, "readers", "consumer_byte_rate"), load(seconds) as consumers:
            consumers.start(consume, bootstrap, "readers", topic, each=True)
            fetched, failed = consumers.results()
            errors += failed
    for error in errors:
        print(f"  {contender.broker.name}: {error}", file=sys.stderr)
    return {
        PRODUCED.name: produced,
        PRODUCED_DEVIATION.name: deviation(produced),
        FETCHED.name: fetched,
        FETCHED_DEVIATION.name: deviation(fetched),
        ERRORS.name: len(errors),
        QUIET.name: quiet["p99"],
        BESIDE.name: beside["p99"],
        TIMES.name: beside["p99"] / quiet["p99"],
        QUIET_TIMER.name: quiet["timer"],
        BESIDE_TIMER.name: beside["timer"],
    }


def measure(environment: Environment) -> list[Figure]:
    """Run the rounds. There is no warm-up round: each client warms up itself."""
    seconds = QUICK_SECONDS if environment.quick else SECONDS
    return environment.play(
        "quotas", QUANTITIES, lambda each: one_round(environment, each, seconds), warm_ups=0
    )


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options("quotas", __doc__, rounds=3, quick="12 s instead of a minute")
    return compare(measure, options, before_client=())


if __name__ == "__main__":
    run(main)
