"""What becomes of many partitions when a broker comes or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from odradek.core.controller.partition_change import Election, PartitionChange, without
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration
from odradek.wire.generated.partition_change_record import PartitionChangeRecord


class Located(NamedTuple):
    """A partition and where it is."""

    topic: str
    topic_id: bytes
    partition_id: int
    partition: PartitionRegistration


def all_partitions(state: ControllerState) -> Iterator[Located]:
    """Every partition of every topic."""
    for topic in state.image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield Located(topic.name, topic.id, index, partition)


def leave(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """The broker is fenced or stops: others lead what it led, and the ISRs go on without it.

    A partition that lives on this broker alone stays as it is: nobody can take it over, and it
    is complete when the broker comes back (Apache Kafka writes "no leader" and back again).
    """
    yield from _changes(
        state,
        (each for each in _held_by(state, broker_id) if each.partition.replicas != (broker_id,)),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
    )


def lose(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """The broker stopped uncleanly: it may lack records that it had, and is not to be trusted.

    With ELR it is neither in sync nor eligible any more (KIP-966). A partition that lives on
    this broker alone gets a new leader epoch, so that consumers notice if its end was lost.
    """
    for each in _held_by(state, broker_id):
        if each.partition.replicas == (broker_id,) and each.partition.leader == broker_id:
            yield PartitionChangeRecord(
                topic_id=each.topic_id, partition_id=each.partition_id, leader=broker_id
            )
    yield from _changes(
        state,
        (each for each in _held_by(state, broker_id) if each.partition.replicas != (broker_id,)),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
        lost=broker_id if state.elr_enabled else NO_LEADER,
    )


def arrive(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """The broker is there again: it leads what has no leader, if it may."""
    yield from _changes(
        state,
        (each for each in all_partitions(state) if each.partition.leader == NO_LEADER),
        lambda replica: replica == broker_id or state.is_active(replica),
    )


def _held_by(state: ControllerState, broker_id: int) -> Iterator[Located]:
    for each in all_partitions(state):
        if broker_id in each.partition.isr or broker_id in each.partition.elr:
            yield each


def _changes(
    state: ControllerState,
    partitions: Iterable[Located],
    may_lead: Callable[[int], bool],
    removed: int = NO_LEADER,
    lost: int = NO_LEADER,
) -> Iterator[PartitionChangeRecord]:
    for topic, topic_id, index, partition in partitions:
        change = PartitionChange(state, topic, topic_id, index, partition, may_lead)
        if state.unclean_election_enabled(topic):
            change.election = Election.UNCLEAN
        change.isr = without(partition.isr, removed)
        if lost != NO_LEADER:
            change.unclean_shutdown = (lost,)
        record = change.record()
        if record is not None:
            yield record
