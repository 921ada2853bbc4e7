"""One run from one seed, with a node, clients, and faults.

In about half of the runs all topics are flushed before an acknowledgement, and the faults include
power losses. In the other runs the process is only killed or stopped, which must not lose records.
When the clients have finished, the logs are compared with the responses that the clients received
(`checks`). Then the machine fails once more, and the logs must not change.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.address import Address
from odradek.client.errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.sim.checks import Contents, check
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts
from odradek.sim.group_member import GroupMember
from odradek.sim.group_processor import INPUT, OUTPUT, GroupProcessor, processed_twice_or_never
from odradek.sim.history_of_facts import unexpected_anomalies
from odradek.sim.loop import SimLoop, new_loop
from odradek.sim.machine import PORT, Machine
from odradek.sim.membership import (
    HEARTBEAT_INTERVAL_MS,
    KINDS,
    SESSION_TIMEOUT_MS,
    committed_offsets,
)
from odradek.sim.network import SimNetwork
from odradek.sim.processor import Processor
from odradek.sim.reading import READ_COMMITTED, READ_UNCOMMITTED, earliest, fetch
from odradek.sim.simulation import NoEnd, Simulation
from odradek.sim.workload import (
    GROUP_PARTITION,
    NOT_NOW,
    Actor,
    IdempotentProducer,
    ImpatientProducer,
    TransactionalProducer,
)
from odradek.sim.zombies import Succession
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse

TOPICS = {INPUT: 3, "ledger": 2, GROUP_PARTITION.topic: 1, OUTPUT: 2}
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "900",
    "replica.high.watermark.checkpoint.interval.ms": "800",
    "log.initial.task.delay.ms": "300",
    "log.index.size.max.bytes": "4096",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "odradek.shutdown.timeout.ms": "500",
}
DURABLE = {"log.flush.interval.messages": "1"}
POWER, TORN = "power", "torn"
"""Kinds of faults: a power loss at a random moment, and one in a disk write."""
SETTLING_LOOKS = 20
"""The maximum number of reads of the logs until all checks pass."""
CALM_NS_MAX = 60_000_000_000
"""The time after the last fault within which all clients and checks must come to an end. It is longer
than the timeout of a transaction, for which a client may have to wait several times."""
STUCK_READS = 40
"""The number of fetches in a row without progress after which a log is read no further."""


class Pace(NamedTuple):
    """How much happens in a run."""

    faults: tuple[int, int]
    """The minimum and maximum number of faults."""
    gap_s_max: float
    """The longest time between two faults."""
    rest_s: float
    """The time that clients have after the last fault."""
    outage_s_max: float
    """The longest time that a node is down, in a cluster."""


LONG = Pace((3, 6), 3.0, 2.0, 4.0)
SHORT = Pace((1, 3), 0.8, 0.4, 3.5)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    seed: int
    violations: list[str]
    """The violations; empty if all checks pass."""
    lines: list[str]
    """The history."""
    counts: dict[str, int]
    """The numbers of events."""

    @property
    def digest(self) -> str:
        """A digest of the history."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


def simulate(seed: int, make: Callable[[int], Scenario] | None = None) -> Outcome:
    """Run the scenario of a seed, and return its result. `make` is `Scenario` by default."""
    scenario = (make or Scenario)(seed)
    with _defects_logged(scenario.simulation):
        scenario.run()
    return scenario.outcome()


@contextmanager
def _defects_logged(simulation: Simulation) -> Iterator[None]:
    """Capture the node's log. A logged exception is a defect."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                simulation.failures.append(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")

    logger = logging.getLogger("odradek")
    before = logger.propagate, logger.level
    handler = Handler()
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[0]
        logger.setLevel(before[1])


class Scenario:
    """A run: the simulation, the machine and the clients."""

    faults: Sequence[str] = ("kill", "stop", POWER, TORN)
    """The kinds of faults of a run."""
    rare_faults: Sequence[str] = ()
    """Other kinds of faults, which occur only if they are asked for."""
    replication_factor = 1
    topics: Mapping[str, int] = TOPICS
    """The topics, with their numbers of partitions at first."""
    read_topics: Sequence[str] = (INPUT, "ledger")
    """The topics that the members of a group read."""
    settings: Mapping[str, str] = SETTINGS
    ends_early = False
    """Whether the run ends at the first violation."""

    def __init__(
        self,
        seed: int,
        faults: Collection[str] | None = None,
        pace: Pace = LONG,
        faults_max: int | None = None,
    ) -> None:
        """`faults` are the kinds of faults that occur. The default is the attribute `faults`.

        With `faults_max` only the first faults of the seed occur. Until then the run is the same as
        without the limit.
        """
        self.seed = seed
        self.simulation = Simulation(seed)
        self.random = self.simulation.random("scenario")
        self.pace = pace
        self.faults_max = faults_max
        self.facts = Facts(violations=self.simulation.failures)
        self.allowed = frozenset(self.faults if faults is None else faults)
        assert self.allowed, "a run has faults"
        self.is_durable = self.random.random() < 0.5 or self.allowed <= {POWER, TORN}
        self.network = SimNetwork(self.simulation)
        self.machines = self.new_machines()
        self.loop = new_loop(self.simulation, "director")
        self.actors: list[Actor] = []
        self.processors: list[GroupProcessor] = []
        """The members of a group that process the records of `INPUT` until all are processed."""
        self.observer = Actor(self.simulation, self.client("observer", self.loop), self.facts)
        self._violations: list[str] = []

    def new_machines(self) -> list[Machine]:
        """Return the machines of the nodes. The method is called once."""
        return [Machine(self.simulation, self.network, "node1", self.node_settings())]

    def node_settings(self) -> dict[str, str]:
        """Return the settings of each node."""
        return {**self.settings, **(DURABLE if self.is_durable else {})}

    def client(self, name: str, loop: SimLoop | None = None) -> SimClient:
        """Return a client on its own machine, with its own event loop unless `loop` is given."""
        host = self.network.host(name, loop or new_loop(self.simulation, name))
        brokers = [Address(each.name, PORT) for each in self.machines]
        return SimClient(self.simulation, host, brokers, name)

    # -- the run ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end."""
        for machine in self.machines:
            machine.start()
        ended: list[asyncio.Task[None]] = []
        self.loop.call_soon(lambda: ended.append(self.loop.create_task(self._direct())))
        try:
            self.simulation.run_until(
                lambda: (
                    (bool(ended) and ended[0].done())
                    or (self.ends_early and bool(self.simulation.failures))
                )
            )
        except NoEnd as error:
            self._violations.append(f"the clients have not finished: {error}")
        for machine in self.machines:
            if machine.is_running:
                machine.kill()
        for host in self.network.hosts.values():
            host.loop.close()
        self.loop.close()
        if ended and ended[0].done():
            ended[0].result()

    def outcome(self) -> Outcome:
        """Return the result of the run."""
        return Outcome(
            self.seed,
            [*self.simulation.failures, *self._violations],
            self.simulation.history.lines,
            self.facts.counts,
        )

    async def _direct(self) -> None:
        await self._create_topics()
        await self._find_coordinators()
        await self.prepare()
        tasks = self._begin_work()
        processing = [each.client.loop.create_task(each.run()) for each in self.processors]
        count = self.random.randint(*self.pace.faults)
        for _ in range(count if self.faults_max is None else min(count, self.faults_max)):
            await asyncio.sleep(self.random.uniform(0.2, self.pace.gap_s_max))
            await self.disturb()
        await self.end_faults()
        self.simulation.limit(CALM_NS_MAX)
        await asyncio.sleep(self.pace.rest_s)
        for actor in self.actors:
            actor.stop()
        await self.until(lambda: all(task.done() for task in tasks))
        self._note_errors(tasks)
        await self.drain()
        await self._drain_processors(processing)
        logs: dict[TopicPartition, Contents] = {}

        async def violations() -> list[str]:
            nonlocal logs
            different = await self.violations_of_replicas()
            logs = await self._read_all()
            return [
                *different,
                *check(self.facts, logs, await self._transactional_offsets()),
                *unexpected_anomalies(self.facts, logs),
                *processed_twice_or_never(logs),
            ]

        async def differences() -> list[str]:
            different = await self.violations_of_replicas()
            now = await self._read_all()
            return [
                *different,
                *(
                    f"{each} is not the same after the last restart: "
                    f"{_difference(logs[each], now[each])}"
                    for each in logs
                    if now[each] != logs[each]
                ),
            ]

        self._violations += await self._lasting(violations)
        if self._violations and self.ends_early:
            return
        self.fail_at_the_end()
        self._violations += await self._lasting(differences)
        await self.drain()

    async def prepare(self) -> None:
        """Prepare the node for the clients, after the topics are created."""

    async def end_faults(self) -> None:
        """Wait until no fault lasts."""

    async def drain(self) -> None:
        """Wait until the clients that take records have taken all."""

    async def _drain_processors(self, tasks: list[asyncio.Task[None]]) -> None:
        """Let the group of processors process all records that are left, and end."""
        for processor in self.processors:
            processor.drain()

        def is_drained() -> bool:
            done: dict[TopicPartition, int] = {}
            for each in self.processors:
                for partition, offset in each.processed.items():
                    done[partition] = max(offset, done.get(partition, 0))
            ends = self._ends(INPUT)
            is_processed = len(ends) == TOPICS[INPUT] and all(
                done.get(each, -1) >= end for each, end in ends.items()
            )
            return is_processed or any(each.done() for each in tasks)

        await self.until(is_drained)
        for processor in self.processors:
            processor.stop()
        await self.until(lambda: all(each.done() for each in tasks))
        self._note_errors(tasks)

    def _ends(self, topic: str) -> dict[TopicPartition, int]:
        """Return the log end offsets of the partitions that have a leader."""
        ends: dict[TopicPartition, int] = {}
        for machine in self.machines:
            if machine.node is not None and machine.is_serving:
                for index, each in machine.node.broker.replicas.by_name.get(topic, {}).items():
                    if each.is_leader:
                        ends[TopicPartition(topic, index)] = each.log.log_end_offset
        return ends

    def _note_errors(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Record the errors that brokers have caused and clients could not mend."""
        for task in tasks:
            try:
                task.result()
            except ClientError as error:
                self.facts.violations.append(f"a client has failed: {error}")

    async def violations_of_replicas(self) -> list[str]:
        """Return the differences between replicas."""
        return []

    def fail_at_the_end(self) -> None:
        """Let all machines fail, and start them again."""
        for machine in self.machines:
            if self.is_durable:
                machine.lose_power()
            else:
                machine.kill()
        for machine in self.machines:
            machine.start()

    async def _lasting(self, find: Callable[[], Awaitable[list[str]]]) -> list[str]:
        """Return the violations that persist.

        After a start some violations disappear, because the high watermark may lag and transactions
        may not be complete yet.
        """
        found: list[str] = []
        for _ in range(SETTLING_LOOKS):
            found = await find()
            if not found:
                break
            await asyncio.sleep(0.2)
        return found

    def _begin_work(self) -> list[asyncio.Task[None]]:
        self.add_actors()
        return [actor.client.loop.create_task(actor.run()) for actor in self.actors]

    def add_actors(self) -> None:
        """Add the clients that work during the run."""
        events = [TopicPartition("events", index) for index in range(TOPICS["events"])]
        ledger = [TopicPartition("ledger", index) for index in range(TOPICS["ledger"])]
        kinds = self.simulation.random("kinds of groups")
        readers, workers = kinds.choice(KINDS), kinds.choice(KINDS)
        self.facts.count(f"groups of members: {readers}")
        self.facts.count(f"groups of processors: {workers}")
        self._add(IdempotentProducer, "producer0", events)
        self._add(ImpatientProducer, "producer1", events)
        for number in range(2):
            self._add(TransactionalProducer, f"transactional{number}", ledger)
            self._add(Processor, f"processor{number}", ledger)
            member = self.client(f"member{number}")
            self.actors.append(
                GroupMember(self.simulation, member, self.facts, self.read_topics, readers)
            )
        self.actors.append(
            Succession(
                self.simulation,
                self.client("heirs"),
                self.facts,
                ledger,
                self.network,
                [each.name for each in self.machines],
                self.client,
            )
        )

        results = [TopicPartition(OUTPUT, index) for index in range(TOPICS[OUTPUT])]
        for number in range(2):
            client = self.client(f"worker{number}")
            self.processors.append(
                GroupProcessor(self.simulation, client, self.facts, results, workers)
            )

    def _add(self, kind: type[Actor], name: str, partitions: list[TopicPartition]) -> None:
        self.actors.append(kind(self.simulation, self.client(name), self.facts, partitions))  # type: ignore[call-arg]

    # -- faults -------------------------------------------------------------------------------

    async def disturb(self) -> None:
        """Let the machine fail in a random way, and start it again."""
        (machine,) = self.machines
        kinds = ["kill", "stop"] + ([POWER, TORN, TORN] if self.is_durable else ["kill"])
        kind = self.random.choice([each for each in kinds if each in self.allowed])
        if not machine.is_serving:
            await self.until(lambda: machine.is_serving)
        self.facts.count(f"fault {kind}")
        if kind == "kill":
            machine.kill()
        elif kind == POWER:
            machine.lose_power()
        elif kind == TORN:
            machine.lose_power_after(self.random.randint(0, 80))
            await self.until(lambda: not machine.is_running)
        else:
            stopped = asyncio.Event()
            machine.stop(stopped.set)
            await stopped.wait()
        await asyncio.sleep(self.random.uniform(0.01, 1.5))
        machine.start()
        if self.is_durable and TORN in self.allowed and self.random.random() < 0.3:
            self.facts.count("fault in a start")
            machine.lose_power_after(self.random.randint(0, 40))
            await self.until(lambda: not machine.is_running)
            machine.start()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        while not holds():
            await asyncio.sleep(0.02)

    # -- questions ----------------------------------------------------------------------------

    async def _create_topics(self) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=count, replication_factor=self.replication_factor
                )
                for name, count in self.topics.items()
            ]
        )
        while True:
            response = await self.observer.ask(request, CreateTopicsResponse)
            if response is not None:
                codes = {each.error_code for each in response.topics}
                if codes <= {0, ErrorCode.TOPIC_ALREADY_EXISTS}:
                    return
            await self.observer.pause()

    async def _find_coordinators(self) -> None:
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
            while True:
                response = await self.observer.ask(request, FindCoordinatorResponse)
                if response is not None and not response.coordinators[0].error_code:
                    break
                await self.observer.pause()

    async def _read_all(self) -> dict[TopicPartition, Contents]:
        """Return the contents of all partitions."""
        return {
            TopicPartition(topic, index): await self._read(TopicPartition(topic, index))
            for topic, count in self.partition_counts().items()
            for index in range(count)
        }

    def partition_counts(self) -> Mapping[str, int]:
        """Return the topics, with their numbers of partitions now."""
        return self.topics

    async def _read(self, partition: TopicPartition) -> Contents:
        start = 0
        if partition.topic not in TOPICS:  # records of other topics are deleted
            while True:
                try:
                    start = await earliest(self.observer.client, partition)
                except ClientError:
                    await self.observer.pause()
                else:
                    break
        uncommitted = await self._read_as(partition, READ_UNCOMMITTED, start)
        return Contents(uncommitted, await self._read_as(partition, READ_COMMITTED, start), start)

    async def _read_as(
        self, partition: TopicPartition, isolation: int, start: int
    ) -> list[tuple[int, str]]:
        values: list[tuple[int, str]] = []
        offset, fruitless = start, 0
        while fruitless < STUCK_READS:
            try:
                found = await fetch(self.observer.client, partition, offset, isolation, 50)
            except ClientError:
                await self.observer.pause()
                continue
            if found.error_code:
                if found.error_code not in NOT_NOW:
                    self.observer.unexpected("Fetch", found.error_code)
                    return values
                await self.observer.pause()
                continue
            values += found.values
            fruitless = 0 if found.next_offset > offset else fruitless + 1
            offset = found.next_offset
            if offset >= found.high_watermark:
                break
        return values

    async def _transactional_offsets(self) -> dict[str, int]:
        offsets: dict[str, int] = {}
        for actor in self.actors:
            while isinstance(actor, TransactionalProducer) and actor.group not in offsets:
                try:
                    found = await committed_offsets(
                        self.observer.client, actor.group, [GROUP_PARTITION]
                    )
                except ClientError:
                    await self.observer.pause()
                else:
                    offsets[actor.group] = found.get(GROUP_PARTITION, -1)
        return offsets


def _difference(before: Contents, after: Contents) -> str:
    missing = set(before.uncommitted) - set(after.uncommitted)
    added = set(after.uncommitted) - set(before.uncommitted)
    return f"missing {sorted(missing)[:3]}, added {sorted(added)[:3]}"
