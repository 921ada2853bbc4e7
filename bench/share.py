"""The cost of share groups, compared with Apache Kafka: `python -m bench.share`.

Each part of a round reads records of 1 KB from one partition with a new share group that begins at
the start of the topic, and accepts them:

- with one and with ten share consumers of Apache Kafka's tool ShareConsumerPerformance, which have
  the default settings. The batches of the topic have 64 KB.
- with 50 members on plain sockets (`bench.share_members`). Each member fetches a batch of ten
  records at a time. The members count their requests, and check that every record is accepted
  exactly once.
- with 50 members that wait for records, which are written one by one at a constant rate.

The figures are the processor seconds of the broker: with its share coordinator, which stores the
acknowledgements, and with the heartbeats of the members. Members send a heartbeat every 500 ms, and
the coordinator assigns partitions to a new member at once. With the defaults, members would wait for
their assignments up to 5 s, and join at most one in a second.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.measures.producing import PROPERTIES as LARGE_BATCHES
from bench.programs import compare, parse_options, run
from bench.share_members import Arrivals, Members
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.cluster import Cluster
from odradek.model.config_resource import ResourceType

SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
}
SIZE = 1000
LIMIT = 0.7
WARM_UPS = 2
RECORDS = 1_000_000
CONSUMERS = 10
MEMBERS = 50
MEMBER_RECORDS = 50_000
BATCH_RECORDS = 10
SMALL_BATCHES = {"acks": "all", "linger.ms": "1000", "batch.size": "10600"}
"""Ten records of `SIZE` fit into a batch."""
ARRIVING_RECORDS = 2_000
ARRIVAL_RATE = 500

ONE = Quantity("one consumer, CPU", "s/GB", LIMIT)
ONE_SPEED = Quantity("one consumer, throughput", "MB/s", higher_is_better=True, primary=False)
TEN = Quantity(f"{CONSUMERS} consumers, CPU", "s/GB", LIMIT)
TEN_SPEED = Quantity(
    f"{CONSUMERS} consumers, throughput", "MB/s", higher_is_better=True, primary=False
)
MANY = Quantity(f"{MEMBERS} members, CPU per 10 000 batches of ten", "s", LIMIT)
MANY_REQUEST = Quantity(f"{MEMBERS} members, CPU per 10 000 requests", "s", LIMIT)
WAITING = Quantity(f"{MEMBERS} waiting members, CPU per 1 000 records", "s", LIMIT)
QUANTITIES = [ONE, ONE_SPEED, TEN, TEN_SPEED, MANY, MANY_REQUEST, WAITING]


class Read(NamedTuple):
    """What ShareConsumerPerformance has read."""

    gigabytes: float
    megabytes_per_second: float


class Round:
    """A round of one broker. The topics are the same in all rounds, the groups are new."""

    def __init__(
        self, environment: Environment, contender: Contender, large: str, small: str, number: int
    ) -> None:
        """`large` and `small` are topics with batches of these sizes."""
        self._environment = environment
        self._contender = contender
        self._large = large
        self._small = small
        self._number = number

    def run(self) -> Mapping[str, float]:
        """Return the values of `QUANTITIES`."""
        one, one_speed = self._tool(1)
        ten, ten_speed = self._tool(CONSUMERS)
        batches, request = self._many()
        return {
            ONE.name: one,
            ONE_SPEED.name: one_speed,
            TEN.name: ten,
            TEN_SPEED.name: ten_speed,
            MANY.name: batches,
            MANY_REQUEST.name: request,
            WAITING.name: self._waiting(),
        }

    def _tool(self, consumers: int) -> tuple[float, float]:
        """Read with ShareConsumerPerformance; return seconds per gigabyte and MB/s."""
        records = self._environment.scaled(RECORDS)
        group = self._new_group(f"{consumers}-consumers")
        meter = CpuMeter(self._contender.broker)
        printed = self._environment.tool(
            self._contender,
            "ShareConsumerPerformance",
            *("--topic", self._large, "--group", group, "--hide-header", "--timeout", "60000"),
            *("--num-records", str(records), "--threads", str(consumers)),
        )
        spent = meter.seconds()
        read = _read(printed)
        return spent / read.gigabytes, read.megabytes_per_second

    def _many(self) -> tuple[float, float]:
        """Read with many members; return seconds per 10 000 batches and per 10 000 requests."""
        records = self._environment.scaled(MEMBER_RECORDS)
        with self._members(self._small) as members:
            meter = CpuMeter(self._contender.broker)
            members.consume(records, BATCH_RECORDS)
            spent = meter.seconds() * 10_000
        return spent / (records / BATCH_RECORDS), spent / members.requests

    def _waiting(self) -> float:
        """Read with many members that wait for records; return seconds per 1 000 records."""
        records = self._environment.scaled(ARRIVING_RECORDS)
        port = self._contender.broker.port
        with self._environment.topic(self._contender) as topic, self._members(topic) as members:
            meter = CpuMeter(self._contender.broker)
            members.consume(records, BATCH_RECORDS, Arrivals(port, topic, SIZE, ARRIVAL_RATE))
            return meter.seconds() / records * 1000

    def _members(self, topic: str) -> Members:
        group = self._new_group(f"members-of-{topic}")
        return Members(self._contender.broker.port, group, topic, MEMBERS)

    def _new_group(self, name: str) -> str:
        group = f"share-{self._number}-{name}"
        resource = Resource(ResourceType.GROUP, group)
        changes = [Change("share.auto.offset.reset", "earliest")]
        with Cluster(self._contender.broker.bootstrap) as cluster:
            if error := alter_configs(cluster, {resource: changes})[resource]:
                raise error
        return group


def _read(printed: str) -> Read:
    """Parse the line that ShareConsumerPerformance prints."""
    fields = printed.strip().splitlines()[-1].split(", ")
    return Read(float(fields[2]) * (1 << 20) / 1e9, float(fields[3]) * (1 << 20) / 1e6)


def measure(environment: Environment) -> list[Figure]:
    """Write the records, and run the rounds."""
    with contextlib.ExitStack() as stack:

        def written(contender: Contender, records: int, properties: Mapping[str, str]) -> str:
            topic = stack.enter_context(environment.topic(contender))
            environment.load(
                contender,
                "produce",
                topic=topic,
                records=environment.scaled(records),
                size=SIZE,
                properties=properties,
            )
            return topic

        topics = {
            each.role: (
                written(each, RECORDS, LARGE_BATCHES),
                written(each, MEMBER_RECORDS, SMALL_BATCHES),
            )
            for each in environment.contenders
        }
        numbers = itertools.count()

        def one_round(contender: Contender) -> Mapping[str, float]:
            large, small = topics[contender.role]
            return Round(environment, contender, large, small, next(numbers)).run()

        return environment.play("share", QUANTITIES, one_round, warm_ups=WARM_UPS)


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    return compare(measure, parse_options("share", __doc__, rounds=4), settings=SETTINGS)


if __name__ == "__main__":
    run(main)
