"""Changes of partitions after a broker was fenced, was unfenced, or had an unclean shutdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from odradek.core.controller.partition_change import Election, PartitionChange, without
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration
from odradek.wire.generated.partition_change_record import PartitionChangeRecord


class Located(NamedTuple):
    """A partition, with its topic and index."""

    topic: str
    topic_id: bytes
    partition_id: int
    partition: PartitionRegistration


def all_partitions(state: ControllerState) -> Iterator[Located]:
    """Return every partition of every topic."""
    for topic in state.image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield Located(topic.name, topic.id, index, partition)


def broker_fenced(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Return the changes after the broker was fenced or has shut down.

    The broker is removed from ISRs. If it leads a partition, another replica becomes the leader, or
    the partition has no leader (see `PartitionChange`).

    A partition whose only replica is on this broker does not change. No other broker can lead such
    a partition, and its log is complete when the broker returns. (Apache Kafka removes the leader
    until the broker returns.)
    """
    yield from _changes(
        state,
        (each for each in _held_by(state, broker_id) if each.partition.replicas != (broker_id,)),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
    )


def unclean_shutdown(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Return the changes after an unclean shutdown of the broker, which may have lost records.

    The broker is removed from ISRs. If ELR is enabled, it is also removed from the eligible leader
    replicas (KIP-966). A partition whose only replica is on this broker keeps its leader but gets a
    new leader epoch, so that consumers notice if the end of the log was lost.
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
        unclean=broker_id if state.elr_enabled else NO_LEADER,
    )


def broker_unfenced(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Return the changes after the broker was unfenced.

    The broker may become the leader of partitions without a leader.
    """
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
    unclean: int = NO_LEADER,
) -> Iterator[PartitionChangeRecord]:
    for topic, topic_id, index, partition in partitions:
        may_be_unclean = state.unclean_election_enabled(topic)
        change = PartitionChange(
            state,
            topic,
            topic_id,
            index,
            partition,
            may_lead=may_lead,
            election=Election.UNCLEAN if may_be_unclean else Election.ONLINE,
            isr=without(partition.isr, removed),
            unclean_shutdown=() if unclean == NO_LEADER else (unclean,),
        )
        record = change.record()
        if record is not None:
            yield record
