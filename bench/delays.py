"""Measures delayed records of a share group: `python -m bench.delays`.

Apache Kafka has no delayed records, so all limits are for Odradek's own figures. A producer writes
records to a topic with times at which they are due: random times within two minutes. Then another
producer writes 5 000 records a second without such times to the same topic, and a share consumer of
our Python client takes and accepts all of them. The lateness of a record is the time from when it
is due until the consumer has it. The load and the consumer are processes of their own.

The run is made twice: once without a disturbance, and once with a `kill -9` of the node after a
third of the time. The lateness after the restart counts records that are due `SETTLED_MS` after the
node serves again. Every record must arrive.

The memory per record is what the resident memory of the node has grown by when all records wait.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compat.lab.broker import BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing

from bench.build import add_mode, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.results import conclude
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.client.share.consumer import ShareConsumer, ShareLimits
from odradek.core.share.schedule import HEADER
from odradek.model.config_resource import ResourceType

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

TOPIC = "delayed"
GROUP = "delays"
VALUE_BYTES = 100
BATCH_BYTES = 2_000
"""Size of the batches of delayed records, which have about ten records. All records of a batch are
sent if one of them is due."""
LEAD_MS = 2_000
"""The first record is due so long after the flow begins."""
SETTLED_MS = 5_000
SCAN_SECONDS_MAX = 120.0
GRACE_SECONDS = 60.0

LATENESS = Quantity("lateness, p99", "ms", most=50)
MEDIAN = Quantity("lateness, median", "ms")
LONGEST = Quantity("lateness, longest", "ms")
AFTER_RESTART = Quantity("lateness after a restart, p99", "ms", most=50)
CAUGHT_UP = Quantity("lateness at the restart, longest", "ms")
AGAIN = Quantity("records delivered again after a kill", "")
MEMORY = Quantity("memory per waiting record", "B")
CPU = Quantity("CPU of the node", "s")


class Plan(NamedTuple):
    """The size of a run."""

    records: int
    seconds: int
    flow: int
    """Records per second without a time."""
    partitions: int


class Arrival(NamedTuple):
    """A delayed record that the consumer has got."""

    number: int
    due_ms: int
    at_ms: float


def now_ms() -> float:
    """Return milliseconds since the epoch."""
    return time.time_ns() / 1e6


def write_delayed(cluster: Cluster, plan: Plan, begin_ms: int, draw: random.Random) -> None:
    """Write the delayed records; they are due from `begin_ms` on."""
    with Producer(cluster, batch_size=BATCH_BYTES, linger_ms=1_000) as producer:
        for number in range(plan.records):
            due_ms = begin_ms + draw.randrange(plan.seconds * 1000)
            value = b"d%d %d" % (number, due_ms)
            producer.send(
                TOPIC,
                value.ljust(VALUE_BYTES),
                partition=number * plan.partitions // plan.records,
                headers=[(HEADER, b"%d" % due_ms)],
            )


def flow(bootstrap: str, plan: Plan, is_over: Event) -> None:
    """Write records without a time until the end. Runs in a process of its own."""
    sent = 0
    begin = time.monotonic()
    value = b"f".ljust(VALUE_BYTES)
    while not is_over.is_set():
        try:
            with (
                Cluster(bootstrap) as cluster,
                Producer(cluster, linger_ms=5) as producer,
            ):
                while not is_over.wait(0.01):
                    wanted = int((time.monotonic() - begin) * plan.flow)
                    for number in range(sent, min(wanted, sent + plan.flow)):
                        producer.send(TOPIC, value, partition=number % plan.partitions)
                    sent = max(sent, wanted)
                    producer.poll()
        except ClientError:
            time.sleep(0.1)  # the node was killed


def consume(
    bootstrap: str, plan: Plan, events: tuple[Event, Event, Event], results: Connection
) -> None:
    """Take and accept all records until the end; send what arrived. Runs in a process of its own.

    The events are set when the first record, and when all delayed records have arrived. The last
    one says when to end.
    """
    has_begun, have_arrived, is_over = events
    numbers: set[int] = set()
    arrivals: list[Arrival] = []
    beside = 0
    limits = ShareLimits(wait_ms_max=200)
    while not is_over.is_set():
        try:
            with (
                Cluster(bootstrap) as cluster,
                ShareConsumer(cluster, GROUP, [TOPIC], mode="implicit", limits=limits) as consumer,
            ):
                while not is_over.is_set():
                    records = consumer.poll(200)
                    at_ms = now_ms()
                    for record in records:
                        value = record.value or b""
                        if value.startswith(b"d"):
                            number, due_ms = map(int, value[1:].split())
                            arrivals.append(Arrival(number, due_ms, at_ms))
                            numbers.add(number)
                            if len(numbers) == plan.records:
                                have_arrived.set()
                        else:
                            beside += 1
                            has_begun.set()
        except ClientError:
            time.sleep(0.1)
    results.send((arrivals, beside))


class Run:
    """One run with a node of its own."""

    def __init__(self, node: OdradekNode, plan: Plan, draw: random.Random) -> None:
        self.node = node
        self.plan = plan
        self._draw = draw
        self._context = multiprocessing.get_context("spawn")
        self.restart: tuple[float, float] | None = None
        """When the node was killed, and when it served again."""

    def prepare(self, cluster: Cluster) -> None:
        """Create the topic and the group."""
        create_topics(cluster, [NewTopic(TOPIC, self.plan.partitions)])
        changes = [
            Change("share.auto.offset.reset", "earliest"),
            Change("odradek.share.delay.enable", "true"),
        ]
        group = Resource(ResourceType.GROUP, GROUP)
        assert alter_configs(cluster, {group: changes}) == {group: None}

    def memory(self) -> float:
        """Return the memory per record, when all records wait for a time that is far away."""
        with Cluster(self.node.bootstrap) as cluster:
            self.prepare(cluster)
            far_ms = int(now_ms()) + 3_600_000
            write_delayed(cluster, self.plan, far_ms, self._draw)
            before = self.node.rss_bytes()
            with (
                Producer(cluster) as producer,
                ShareConsumer(cluster, GROUP, [TOPIC]) as consumer,
            ):
                # A record after the delayed ones arrives when these have been read.
                for index in range(self.plan.partitions):
                    producer.send(TOPIC, b"last", partition=index)
                producer.flush()
                last: set[int] = set()
                deadline = time.monotonic() + SCAN_SECONDS_MAX
                while len(last) < self.plan.partitions:
                    assert time.monotonic() < deadline, "the delayed records were not read in time"
                    for record in consumer.poll(1_000):
                        assert record.value == b"last", "a record arrived before it is due"
                        consumer.accept(record)
                        last.add(record.partition)
                return (self.node.rss_bytes() - before) / self.plan.records

    def measure(self, *, with_restart: bool) -> tuple[list[Arrival], int]:
        """Return the delayed records that arrived, and how many others did."""
        plan, node = self.plan, self.node
        with Cluster(node.bootstrap) as cluster:
            self.prepare(cluster)
        has_begun, have_arrived, is_over = (self._context.Event() for _ in range(3))
        receiver, sender = self._context.Pipe(duplex=False)
        processes = [
            self._context.Process(
                target=consume,
                args=(node.bootstrap, plan, (has_begun, have_arrived, is_over), sender),
            ),
            self._context.Process(target=flow, args=(node.bootstrap, plan, is_over)),
        ]
        for process in processes:
            process.start()
        try:
            if not has_begun.wait(GRACE_SECONDS):
                raise BrokerFailed("nothing arrived")
            # About 20 000 records are written in a second.
            begin_ms = int(now_ms()) + LEAD_MS + plan.records // 5
            with Cluster(node.bootstrap) as cluster:
                write_delayed(cluster, plan, begin_ms, self._draw)
            _sleep_until(begin_ms + plan.seconds * 1000 // 3)
            if with_restart:
                killed_ms = now_ms()
                node.kill()
                node.start()
                self.restart = killed_ms, now_ms()
            _sleep_until(begin_ms + plan.seconds * 1000)
            have_arrived.wait(GRACE_SECONDS)
        finally:
            is_over.set()
        if not receiver.poll(GRACE_SECONDS):
            raise BrokerFailed("the consumer has not ended")
        arrivals, beside = receiver.recv()
        for process in processes:
            process.join(GRACE_SECONDS)
        return arrivals, beside


def _sleep_until(at_ms: float) -> None:
    time.sleep(max(0.0, (at_ms - now_ms()) / 1000))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def lateness(arrivals: Sequence[Arrival], run: Run) -> dict[Quantity, float]:
    """Return the figures of one run.

    Raises:
        BrokerFailed: a record is missing, or came before its time.
    """
    first: dict[int, Arrival] = {}
    for each in arrivals:
        first.setdefault(each.number, each)
    if len(first) < run.plan.records:
        raise BrokerFailed(f"{run.plan.records - len(first)} delayed records did not arrive")
    late = {number: each.at_ms - each.due_ms for number, each in first.items()}
    if min(late.values()) < -1:
        raise BrokerFailed(f"a record came {-min(late.values()):.0f} ms before its time")
    if run.restart is None:
        values = list(late.values())
        return {
            LATENESS: percentile(values, 0.99),
            MEDIAN: statistics.median(values),
            LONGEST: max(values),
        }
    killed_ms, served_ms = run.restart
    settled_ms = served_ms + SETTLED_MS
    after = [late[number] for number, each in first.items() if each.due_ms > settled_ms]
    at_restart = [
        late[number] for number, each in first.items() if killed_ms <= each.due_ms <= settled_ms
    ]
    if not after:
        raise BrokerFailed("the run was over before the node had settled")
    return {
        AFTER_RESTART: percentile(after, 0.99),
        CAUGHT_UP: max(at_restart, default=0.0),
        AGAIN: len(arrivals) - len(first),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed, and 2 if the node has failed.
    """
    options = _parser().parse_args(words)
    plan = Plan(options.records, options.seconds, options.flow, options.partitions)
    machine = facts()
    draw = random.Random(options.seed)
    found: dict[str, Figure] = {}

    def note(values: dict[Quantity, float]) -> None:
        for quantity, value in values.items():
            figure = found.setdefault(quantity.name, Figure("delays", quantity))
            figure.add(OURS, value)
            print(f"delays  {quantity.name}: {value:.4g} {quantity.unit}", flush=True)

    try:
        build = prepared(options.mode)
        node_class = build.node()
        with node_class() as node:
            note({MEMORY: Run(node, plan, draw).memory()})
        for with_restart in (False, True):
            with node_class() as node:
                run = Run(node, plan, draw)
                arrivals, beside = run.measure(with_restart=with_restart)
                print(f"delays  {beside} records flowed beside", flush=True)
                note(lateness(arrivals, run))
                if not with_restart:
                    note({CPU: node.cpu_seconds()})
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    setup = {"kind": "setup", OURS: build.described(), "seed": options.seed, **plan._asdict()}
    figures = list(found.values())
    return conclude(
        figures,
        {OURS: "Odradek", THEIRS: "Apache Kafka"},
        machine,
        setup,
        is_trial=plan != Plan(*_FULL),
        output=options.output,
    )


_FULL = (100_000, 120, 5_000, 4)


def _parser() -> argparse.ArgumentParser:
    records, seconds, flow_rate, partitions = _FULL
    parser = argparse.ArgumentParser(prog="python -m bench.delays", description=__doc__)
    parser.add_argument("--records", type=int, default=records, help="delayed records")
    parser.add_argument("--seconds", type=int, default=seconds, help="within which they are due")
    parser.add_argument("--flow", type=int, default=flow_rate, help="other records per second")
    parser.add_argument("--partitions", type=int, default=partitions)
    parser.add_argument("--seed", type=int, default=1)
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
