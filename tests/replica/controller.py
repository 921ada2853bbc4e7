"""A scripted controller: it decides as Apache Kafka does, and each decision is durable at once.

A broker that may have lost records leaves the ISR at once, before anything else happens: without
eligible leader replicas, Apache Kafka loses records if the ISR shrinks to such a broker.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.metadata.registrations import BrokerRegistration, PartitionRegistration
from odradek.core.replica.effects import IsrChange
from odradek.model.errors import ErrorCode

NO_LEADER = -1


def broker_registration(
    broker_id: int, epoch: int, fenced: bool, listeners=None
) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id, epoch, bytes(16), listeners or {}, {}, None, fenced, False, False, (), None
    )


def partition_registration(replicas: tuple[int, ...]) -> PartitionRegistration:
    return PartitionRegistration(
        replicas, (bytes(16),) * len(replicas), replicas, (), (), (), (), replicas[0], 0, 0, 0
    )


Change = tuple[int | None, BrokerRegistration | PartitionRegistration]
"""A partition's index, or None for a broker, and the new registration."""


class Controller:
    def __init__(
        self, broker_ids: tuple[int, ...], partitions: int, publish, listeners=None
    ) -> None:
        """`listeners` has the listeners of each broker."""
        self._listeners = listeners or {}
        self.brokers = {
            each: broker_registration(each, each, False, self._listeners.get(each))
            for each in broker_ids
        }
        self.partitions = [
            partition_registration(broker_ids[i % len(broker_ids) :] + broker_ids[: i % 3])
            for i in range(partitions)
        ]
        self._epoch = max(broker_ids)
        self._publish: Callable[[list[Change]], None] = publish

    def snapshot(self) -> list[Change]:
        changes: list[Change] = [(None, each) for each in self.brokers.values()]
        return changes + list(enumerate(self.partitions))

    def _change(self, index: int, **fields) -> Change:
        before = self.partitions[index]
        after = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        if "leader" in fields:
            after = after._replace(leader_epoch=before.leader_epoch + 1)
        self.partitions[index] = after
        return index, after

    def _may_lead(self, broker_id: int) -> bool:
        return not self.brokers[broker_id].fenced

    def _elect(self, index: int, isr: tuple[int, ...]) -> list[Change]:
        """Change the ISR, and elect another leader if the leader may no longer lead."""
        partition = self.partitions[index]
        leader = partition.leader
        if leader in isr and self._may_lead(leader):
            return [] if isr == partition.isr else [self._change(index, isr=isr)]
        chosen = [each for each in partition.replicas if each in isr and self._may_lead(each)]
        found = chosen[0] if chosen else NO_LEADER
        if found == leader and isr == partition.isr:
            return []
        return [self._change(index, isr=isr, leader=found)]

    def fence(self, broker_id: int) -> None:
        if self.brokers[broker_id].fenced:
            return
        self.brokers[broker_id] = self.brokers[broker_id]._replace(fenced=True)
        self._publish([(None, self.brokers[broker_id]), *self._without(broker_id)])

    def _without(self, broker_id: int) -> list[Change]:
        changes = []
        for index, partition in enumerate(self.partitions):
            isr = tuple(each for each in partition.isr if each != broker_id)
            changes += self._elect(index, isr or partition.isr)
        return changes

    def register(self, broker_id: int) -> int:
        """Register a new incarnation of a broker; it is fenced until `unfence`."""
        self._epoch += 1
        self.brokers[broker_id] = broker_registration(
            broker_id, self._epoch, True, self._listeners.get(broker_id)
        )
        self._publish([(None, self.brokers[broker_id]), *self._without(broker_id)])
        return self._epoch

    def unfence(self, broker_id: int, epoch: int) -> None:
        broker = self.brokers[broker_id]
        if broker.epoch != epoch or not broker.fenced:
            return
        self.brokers[broker_id] = broker._replace(fenced=False)
        changes: list[Change] = [(None, self.brokers[broker_id])]
        for index, partition in enumerate(self.partitions):
            changes += self._elect(index, partition.isr)
        self._publish(changes)

    def move_leader(self, index: int, broker_id: int) -> None:
        partition = self.partitions[index]
        may_lead = broker_id in partition.isr and self._may_lead(broker_id)
        if may_lead and partition.leader != broker_id:
            self._publish([self._change(index, leader=broker_id)])

    def bump(self, index: int) -> None:
        """Elect the same leader again, as for a replica that was lost."""
        leader = self.partitions[index].leader
        if leader != NO_LEADER:
            self._publish([self._change(index, leader=leader)])

    def alter(
        self, broker_id: int, broker_epoch: int, index: int, change: IsrChange
    ) -> ErrorCode | PartitionRegistration:
        """The checks of `ReplicationControlManager.alterPartition`, in its order."""
        partition = self.partitions[index]
        if self.brokers[broker_id].epoch != broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if change.leader_epoch != partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition.leader != broker_id:
            return ErrorCode.INVALID_REQUEST
        if change.partition_epoch != partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        isr = tuple(each for each, _ in change.isr)
        if broker_id not in isr or not {*isr} <= {*partition.replicas}:
            return ErrorCode.INVALID_REQUEST
        for each, epoch in change.isr:
            broker = self.brokers[each]
            if broker.fenced or epoch not in (-1, broker.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self._publish([self._change(index, isr=isr)])
        return self.partitions[index]
