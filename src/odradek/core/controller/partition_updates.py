"""Changes of partitions after the state of a broker has changed.

A broker was fenced or unfenced, begins a controlled shutdown, had an unclean shutdown, or lost a
log directory. The index of the state finds the partitions (`partition_index`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from odradek.core.controller.partition_change import Election, PartitionChange, without
from odradek.core.controller.partition_index import PartitionId
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration
from odradek.wire.generated.partition_change_record import PartitionChangeRecord


class Located(NamedTuple):
    """A partition, with its topic and index."""

    topic: str
    topic_id: bytes
    partition_id: int
    partition: PartitionRegistration


def located(state: ControllerState, partitions: Iterable[PartitionId]) -> Iterator[Located]:
    """Yield the partitions with their topics. All of them must exist."""
    topics = state.image.topics.by_id
    for topic_id, index in partitions:
        topic = topics[topic_id]
        yield Located(topic.name, topic_id, index, topic.partitions[index])


def broker_fenced(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after the broker was fenced, or has begun a controlled shutdown.

    The broker is removed from ISRs. If it leads a partition, another replica becomes the leader, or
    the partition has no leader (see `PartitionChange`).

    A partition whose only replica is on this broker does not change. No other broker can lead such
    a partition, and its log is complete when the broker returns. (Apache Kafka removes the leader
    until the broker returns.)
    """
    yield from _changes(
        state,
        located(state, state.index.in_isr(broker_id)),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
    )


def unclean_shutdown(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after an unclean shutdown of the broker, which may have lost records.

    The broker is removed from ISRs. If ELR is enabled, it is also removed from the eligible leader
    replicas (KIP-966). A partition whose only replica is on this broker keeps its leader but gets a
    new leader epoch, so that consumers notice if the end of the log was lost.
    """
    for topic_id, index in state.index.alone_on(broker_id):
        yield PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=broker_id)
    for partitions in (state.index.in_isr(broker_id), state.index.in_elr(broker_id)):
        yield from _changes(
            state,
            (
                each
                for each in located(state, partitions)
                if each.partition.replicas != (broker_id,)
            ),
            lambda replica: replica != broker_id and state.is_active(replica),
            removed=broker_id,
            unclean=broker_id if state.elr_enabled else NO_LEADER,
        )


def broker_unregistered(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after the broker was unregistered: the same as if it was fenced."""
    yield from broker_fenced(state, broker_id)
    yield from _changes(
        state,
        (
            each
            for each in located(state, state.index.in_elr(broker_id))
            if each.partition.replicas != (broker_id,)
        ),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
    )


def broker_unfenced(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after the broker was unfenced.

    The broker may become the leader of partitions without a leader, unless it shuts down.
    """
    may_lead = not state.image.cluster.brokers[broker_id].in_controlled_shutdown
    yield from _changes(
        state,
        located(state, state.index.leaderless()),
        lambda replica: state.is_active(replica) or (may_lead and replica == broker_id),
    )


def directories_offline(
    state: ControllerState, broker_id: int, directories: Collection[bytes]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after the broker has lost log directories.

    They are the changes of `broker_fenced` for the partitions in these directories. A partition
    whose only replica is in such a directory has no leader until the directory returns.
    """
    index = state.index
    held = (*located(state, index.in_isr(broker_id)), *located(state, index.alone_on(broker_id)))
    yield from _changes(
        state,
        (each for each in held if each.partition.directory(broker_id) in directories),
        lambda replica: replica != broker_id and state.is_active(replica),
        removed=broker_id,
    )


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
