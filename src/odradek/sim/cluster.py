"""A run with three or more nodes, and faults of the machines and of the network.

The first five nodes are brokers and controllers, the others only brokers. Each partition has three
replicas, and `min.insync.replicas` is 2. Machines fail: one is killed, it is stopped, its traffic to
one other machine is cut in one direction, or it is cut off from all others. It loses power only if
the caller chooses this fault. At most `FAULTS_AT_ONCE` machines have a fault at the same time. So the
quorum may be lost, and a partition may have no leader; but no acknowledged record may be lost,
because the disks survive. At the end, beside the checks of a single node, all replicas of a partition must have the same records, and
all nodes must have the same image of the metadata. A `Watch` checks the nodes during the run, which
ends at the first violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping

from odradek.config.broker_config import RACK_AWARE_SELECTOR
from odradek.core.metadata.image import MetadataImage
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import iterate_batches
from odradek.sim import administrator
from odradek.sim.administrator import Administrator
from odradek.sim.driver import SimClient
from odradek.sim.loop import SimLoop
from odradek.sim.machine import PORT, Machine
from odradek.sim.scenario import LONG, POWER, SETTINGS, TOPICS, Pace, Scenario
from odradek.sim.share_facts import DELIVERIES_MAX, LOCK_MS
from odradek.sim.share_group import TOPIC, ShareGroup
from odradek.sim.watch import Watch
from odradek.sim.workload import Stocker

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NODES = 3
VOTERS_MAX = 5
CONTROLLER_PORT = 9093
SESSION_TIMEOUT_MS = 2000
"""The time after which the controller fences a broker that sends no heartbeats."""
CUT_ONE_WAY, CUT_OFF = "cut one way", "cut off"
FAULTS_AT_ONCE = 2
"""The maximum number of machines that have a fault at the same time."""
OVERLAPPING_SHARE = 0.5
"""The fraction of faults during which the next fault may begin."""
SHARE_MEMBERS = 2
_SECOND_NS = 1_000_000_000


class ClusterScenario(Scenario):
    """Several nodes and their clients."""

    faults = ("kill", "stop", CUT_ONE_WAY, CUT_OFF)
    rare_faults = (POWER,)
    replication_factor = 3
    topics: Mapping[str, int] = {**TOPICS, administrator.TOPIC: 1}
    read_topics = (*Scenario.read_topics, administrator.TOPIC)
    ends_early = True

    def __init__(
        self,
        seed: int,
        faults: Collection[str] | None = None,
        nodes: int = NODES,
        pace: Pace = LONG,
        faults_max: int | None = None,
    ) -> None:
        """`nodes` is the number of nodes, at least three. See `Scenario` for the other arguments."""
        assert nodes >= NODES, "the partitions have three replicas"
        self.node_ids = range(1, nodes + 1)
        self.settings = _settings(self.node_ids[:VOTERS_MAX])
        super().__init__(seed, faults, pace, faults_max)
        self._ongoing: dict[str, asyncio.Task[None]] = {}
        """The faults that last, by the name of the machine."""
        self._may_overlap = False
        """Whether the next fault may begin while another one lasts."""
        voters = self.machines[:VOTERS_MAX]
        self.watch = Watch(
            self.simulation,
            self.network,
            self.machines,
            voters,
            SESSION_TIMEOUT_MS,
            [administrator.TOPIC],
        )
        self.watch.start()
        self.share_group = ShareGroup(self.simulation, self.facts, self.machines, TOPICS[TOPIC])

    def new_machines(self) -> list[Machine]:
        """Return a machine for each node. The first five are voters."""
        return [self._machine(each) for each in self.node_ids]

    def _machine(self, node_id: int) -> Machine:
        name = f"node{node_id}"
        is_voter = node_id in self.node_ids[:VOTERS_MAX]
        settings = {
            **self.node_settings(),
            "node.id": str(node_id),
            "broker.rack": f"rack{node_id}",
            "process.roles": "broker,controller" if is_voter else "broker",
            "listeners": f"PLAINTEXT://{name}:{PORT}"
            + (f",CONTROLLER://{name}:{CONTROLLER_PORT}" if is_voter else ""),
        }
        return Machine(self.simulation, self.network, name, settings, CLUSTER_ID)

    def client(self, name: str, loop: SimLoop | None = None) -> SimClient:
        """See `Scenario`. Unless `loop` is given, the client has a rack."""
        client = super().client(name, loop)
        if loop is None:
            rack = self.simulation.random(f"{name} rack").choice(self.node_ids)
            client.read_near(f"rack{rack}")
        return client

    def add_actors(self) -> None:
        """See `Scenario`. One more client changes the metadata, and two are in a share group."""
        super().add_actors()
        client = self.client("administrator")
        self.administrator = Administrator(self.simulation, client, self.facts)
        self.actors.append(self.administrator)
        self._add(Stocker, "stocker", [TopicPartition(administrator.TOPIC, 0)])
        for number in range(SHARE_MEMBERS):
            client = self.client(f"sharer{number}")
            self.actors.append(self.share_group.add_member(client))

    async def prepare(self) -> None:
        """See `Scenario`."""
        await self.share_group.configure(self.observer)

    async def drain(self) -> None:
        """See `Scenario`. A member of the share group takes the records that are left."""
        await self.share_group.drain(self.until)

    def _image(self) -> MetadataImage | None:
        for machine in self.machines:
            if machine.node is not None and machine.is_serving:
                return machine.node.broker.metadata.image
        return None

    def partition_counts(self) -> Mapping[str, int]:
        """See `Scenario`."""
        image = self._image()
        assert image is not None
        return {name: len(image.topics.by_name[name].partitions) for name in self.topics}

    async def disturb(self) -> None:
        """Let one machine fail in a random way. Return when the next fault may begin.

        After some of the faults this is at once, and the next machine fails while the fault lasts.
        Otherwise it is when all nodes serve again.
        """
        await self.until(self._may_fail)
        machine = self.random.choice(self._healthy())
        kinds = [*self.faults, *(self.rare_faults if self.is_durable else ())]
        kind = self.random.choice([each for each in kinds if each in self.allowed])
        self.facts.count(f"fault {kind}")
        if self._ongoing:
            self.facts.count("overlapping faults")
        self.watch.look()
        self._ongoing[machine.name] = self.loop.create_task(self._fail(machine, kind))
        self._may_overlap = self.random.random() < OVERLAPPING_SHARE
        if not self._may_overlap:
            await self.end_faults()

    async def end_faults(self) -> None:
        """See `Scenario`."""
        for name, task in list(self._ongoing.items()):
            await task
            del self._ongoing[name]

    def _may_fail(self) -> bool:
        """Return whether the next fault may begin."""
        for name, task in list(self._ongoing.items()):
            if task.done():
                task.result()
                del self._ongoing[name]
        if self._may_overlap and len(self._ongoing) < FAULTS_AT_ONCE:
            return bool(self._healthy())
        return not self._ongoing and all(each.is_serving for each in self.machines)

    def _healthy(self) -> list[Machine]:
        """Return the machines that serve and have no fault."""
        return [
            each for each in self.machines if each.is_serving and each.name not in self._ongoing
        ]

    async def _fail(self, machine: Machine, kind: str) -> None:
        """Let a machine fail, and start it again or wait until its network works again."""
        if kind in (CUT_ONE_WAY, CUT_OFF):
            await self._cut(machine, kind)
            return
        if kind == POWER:
            machine.lose_power()
        elif kind == "kill":
            machine.kill()
        else:
            stopped = asyncio.Event()
            machine.stop(stopped.set)
            await stopped.wait()
        await asyncio.sleep(self.random.uniform(0.01, self.pace.outage_s_max))
        machine.start()

    async def _cut(self, machine: Machine, kind: str) -> None:
        duration_ns = int(self.random.uniform(0.1, self.pace.outage_s_max + 1) * _SECOND_NS)
        others = [each for each in self.machines if each is not machine]
        if kind == CUT_ONE_WAY:
            others = self.random.sample(others, 1)
        names = ", ".join(each.name for each in others)
        how = "sends nothing to" if kind == CUT_ONE_WAY else "is cut off from"
        self.simulation.note(machine.name, f"{how} {names} for {duration_ns // 1_000_000} ms")
        for other in others:
            self.network.cut(machine.name, other.name, duration_ns)
            if kind == CUT_OFF:
                self.network.cut(other.name, machine.name, duration_ns)
        await asyncio.sleep(duration_ns / _SECOND_NS)

    async def violations_of_replicas(self) -> list[str]:
        """Return the differences between replicas, and between the images of the metadata."""
        await self.until(lambda: all(each.is_serving for each in self.machines))
        return [*self._different_replicas(), *self._different_metadata()]

    def _different_replicas(self) -> Iterator[str]:
        for topic, count in self.partition_counts().items():
            for index in range(count):
                contents, start = {}, 0
                for machine in self.machines:
                    assert machine.node is not None
                    replica = machine.node.broker.replicas.by_name.get(topic, {}).get(index)
                    if replica is not None:
                        start = max(start, replica.log.log_start_offset)
                        contents[machine.name] = b"".join(
                            machine.disk.pread(each.opened().descriptor, each.size, 0)
                            for each in replica.log.segments
                        )
                if len(contents) != self.replication_factor:
                    yield f"{TopicPartition(topic, index)}: only {list(contents)} have a replica"
                elif len({_batches(each, start) for each in contents.values()}) > 1:
                    ends = {name: len(each) for name, each in contents.items()}
                    yield f"{TopicPartition(topic, index)}: the replicas differ: {ends}"

    def _different_metadata(self) -> Iterator[str]:
        first: MetadataImage | None = None
        for machine in self.machines:
            assert machine.node is not None
            image = machine.node.broker.metadata.image
            first = first or image
            yield from self.administrator.differences(image)
            if image != first:
                yield f"{machine.name} has another image of the metadata than {self.machines[0].name}"
            for group in self.facts.settings:
                if not image.configs.of(ResourceType.GROUP, group):
                    yield f"{machine.name}: the acknowledged setting of {group!r} is lost"


def _batches(content: bytes, start: int) -> tuple[bytes, ...]:
    """Return the batches of a replica from an offset on.

    Replicas delete whole segments, not all at the same time, and the records before the start of the log
    do not count.
    """
    batches = iterate_batches(memoryview(content))
    return tuple(bytes(each.data) for each in batches if each.base_offset >= start)


def _settings(voters: Iterable[int]) -> dict[str, str]:
    """Return the settings that all nodes share."""
    addresses = ",".join(f"{each}@node{each}:{CONTROLLER_PORT}" for each in voters)
    return {
        **SETTINGS,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": addresses,
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.election.backoff.max.ms": "300",
        "controller.quorum.fetch.timeout.ms": "1000",
        "controller.quorum.request.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "400",
        "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "300",
        "replica.fetch.backoff.ms": "200",
        "replica.fetch.max.bytes": "100",
        "replica.selector.class": RACK_AWARE_SELECTOR,
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": str(LOCK_MS),
        "group.share.min.assignment.interval.ms": "0",
        "group.share.assignment.interval.ms": "0",
        "group.share.delivery.count.limit": str(DELIVERIES_MAX),
    }
