"""The share group of a simulated cluster: its settings, its members, and its end.

The group consumes the topic of the idempotent producers. At the end of a run a member accepts all
records that are left, until the leaders have no record in flight. Then each record must be settled
(`ShareFacts.unsettled`). After the last restart of the nodes the same must be true, and no settled
record may be delivered again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from odradek.broker.partitions.partition import Partition
from odradek.broker.share.local import LocalSharePartition
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.sim.administrator import NO_CONTROLLER
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts
from odradek.sim.machine import Machine
from odradek.sim.share_facts import ShareFacts
from odradek.sim.share_member import ShareMember
from odradek.sim.simulation import Simulation
from odradek.sim.workload import Actor
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

GROUP, TOPIC = "sharers", "events"
SETTING, VALUE = "share.auto.offset.reset", "earliest"

Until = Callable[[Callable[[], bool]], Awaitable[None]]


class ShareGroup:
    """The group, its members, and what is known about its records."""

    def __init__(
        self,
        simulation: Simulation,
        facts: Facts,
        machines: Sequence[Machine],
        partition_count: int,
    ) -> None:
        """`partition_count` is the number of partitions of `TOPIC`."""
        self._simulation = simulation
        self._partition_count = partition_count
        self.shared = ShareFacts(facts)
        self._facts = facts
        self._machines = machines
        self._members: list[ShareMember] = []

    def add_member(self, client: SimClient) -> ShareMember:
        """Return a new member."""
        member = ShareMember(
            self._simulation,
            client,
            self._facts,
            self.shared,
            GROUP,
            TOPIC,
            self._partition_count,
            self._find_lifetime,
        )
        self._members.append(member)
        return member

    async def configure(self, actor: Actor) -> None:
        """Let the group begin with the first records. Return when all brokers know this."""
        change = AlterableConfig(name=SETTING, config_operation=0, value=VALUE)
        resource = AlterConfigsResource(
            resource_type=ResourceType.GROUP, resource_name=GROUP, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while not all(map(_is_configured, self._machines)):
            response = await actor.ask(request, IncrementalAlterConfigsResponse)
            code = response.responses[0].error_code if response is not None else 0
            if code and code not in NO_CONTROLLER:
                actor.unexpected("IncrementalAlterConfigs", code)
            await actor.pause(0.05)

    async def drain(self, until: Until) -> None:
        """Let a member accept what is left. Then check that all records are settled."""
        member = self._members[0]
        self._simulation.note(GROUP, "a member begins to take the records that are left")
        task = member.client.loop.create_task(member.drain(self._is_drained))
        await until(task.done)
        task.result()
        self._simulation.note(GROUP, "all records are taken")
        self._facts.violations.extend(self.shared.unsettled(TOPIC))

    # -- what the nodes have --------------------------------------------------------------------

    def _find_lifetime(self, node_id: int, partition: TopicPartition) -> LocalSharePartition | None:
        """See `share_member.FindLifetime`."""
        for machine in self._machines:
            if machine.node_id == node_id:
                for each, local in _led(machine):
                    if each.index == partition.partition:
                        return local
        return None

    def _is_drained(self) -> bool:
        """Return whether the leaders of all partitions have no record that is not complete.

        A broker that does not know yet that it leads no more must not be asked, so each partition
        must have one leader.
        """
        if not all(each.is_serving for each in self._machines):
            return False
        led = [each for machine in self._machines for each in _led(machine)]
        indexes = sorted(partition.index for partition, _ in led)
        return indexes == list(range(self._partition_count)) and all(map(_is_complete, led))


_Led = tuple[Partition, LocalSharePartition | None]
"""A partition on its leader, and its share partition."""


def _is_complete(led: _Led) -> bool:
    """Return whether no record of a partition can be delivered any more.

    Records in flight may all be complete. After a change of the leader the start offset passes them
    only when a later record is acquired, as in Apache Kafka (`Window.close_gaps`).
    """
    partition, local = led
    if local is None or not local.machine.is_active:
        return False
    complete_to = local.machine.start_offset + local.machine.complete_count
    return complete_to == partition.log.high_watermark == partition.log.log_end_offset


def _led(machine: Machine) -> Iterator[_Led]:
    """Yield the partitions that a machine leads, and their share partitions."""
    if machine.node is None or not machine.is_serving:
        return
    broker = machine.node.broker
    for partition in broker.replicas.by_name.get(TOPIC, {}).values():
        if partition.is_leader:
            key = (partition.topic_id, partition.index)
            yield partition, broker.share_partitions.find(GROUP, key)


def _is_configured(machine: Machine) -> bool:
    if machine.node is None or not machine.is_serving:
        return False
    return bool(machine.node.broker.metadata.image.configs.of(ResourceType.GROUP, GROUP))
