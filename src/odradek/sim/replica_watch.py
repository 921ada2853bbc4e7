"""Checks the replicas of all partitions while a simulated cluster runs."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.broker.partitions.partition import Partition
from odradek.core.metadata.registrations import PartitionRegistration
from odradek.core.replica.leader import PartitionLeader
from odradek.log.partition_log import PartitionLog
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import iterate_batches
from odradek.sim.seen_node import SeenNode


class Key(NamedTuple):
    """A partition. A topic that is created again has another id."""

    topic_id: bytes
    partition: TopicPartition

    def __str__(self) -> str:
        return str(self.partition)


class ReplicaWatch:
    """Checks the replicas.

    - A leader epoch of a partition has at most one leader.
    - The high watermark of a leader never moves down.
    - What is committed never changes, and is the same on all replicas. This is not checked in
      internal topics, because they are compacted.
    - All members of the ISR have all records that were ever committed.
    """

    def __init__(self) -> None:
        self._leaders: dict[tuple[Key, int], str] = {}
        self._high_watermarks: dict[tuple[str, int, Key, int], int] = {}
        """The high watermark of each leader: by node, incarnation, partition and leader epoch."""
        self._contents: dict[Key, CommittedContent] = {}
        self._committed: dict[Key, int] = {}
        """The highest high watermark that any replica had."""
        self._registrations: dict[Key, PartitionRegistration] = {}
        """The newest registration that any image had. The nodes that run now may have older ones."""

    def look(self, now_ns: int, nodes: Sequence[SeenNode]) -> Iterator[str]:
        """Yield the violations."""
        newest: dict[Key, PartitionLeader] = {}
        for node in nodes:
            for partition in node.replicas:
                name = Key(partition.topic_id, partition.log.topic_partition)
                log = partition.log
                if log.high_watermark > self._committed.get(name, 0):
                    self._committed[name] = log.high_watermark
                leading = partition.leading
                if leading is not None and partition.is_leader:
                    leader = leading.machine
                    yield from self._check_leader(node, name, leader)
                    other = newest.get(name)
                    if other is None or leader.leader_epoch > other.leader_epoch:
                        newest[name] = leader
                if not partition.is_internal:
                    content = self._contents.setdefault(name, CommittedContent())
                    for problem in content.compare(node, log):
                        yield f"{name}: {problem}"
        for name, leader in newest.items():
            registration = self._newest_registration(nodes, name)
            if registration is not None:
                committed = self._committed.get(name, 0)
                yield from _lacking(nodes, name, leader, registration, committed)

    def _newest_registration(
        self, nodes: Sequence[SeenNode], name: Key
    ) -> PartitionRegistration | None:
        newest = self._registrations.get(name)
        for node in nodes:
            topic = node.image.topics.by_id.get(name.topic_id)
            found = None if topic is None else topic.partitions.get(name.partition.partition)
            if found is not None and (
                newest is None or found.partition_epoch > newest.partition_epoch
            ):
                newest = self._registrations[name] = found
        return newest

    def _check_leader(self, node: SeenNode, name: Key, leader: PartitionLeader) -> Iterator[str]:
        epoch = leader.leader_epoch
        known = self._leaders.setdefault((name, epoch), node.name)
        if known != node.name:
            yield f"{name} has two leaders in epoch {epoch}: {known}, {node.name}"
        key = node.name, node.incarnation, name, epoch
        before = self._high_watermarks.get(key, -1)
        if leader.high_watermark < before:
            yield (
                f"{name}: the high watermark of {node.name} moved from {before} down to "
                f"{leader.high_watermark}"
            )
        self._high_watermarks[key] = leader.high_watermark


class CommittedContent:
    """The committed batches of a partition, and how far each replica was compared with them.

    A replica need not have the first batches: they may have been deleted before it was added.
    """

    def __init__(self) -> None:
        self._batches: dict[int, bytes] = {}
        """By base offset."""
        self._bases: list[int] = []
        """The base offsets in order."""
        self._ends: dict[int, int] = {}
        """The offset after each batch, by base offset."""
        self._compared: dict[tuple[str, int], Place] = {}
        """The place up to which a replica was compared, by node and incarnation."""

    def compare(self, node: SeenNode, log: PartitionLog) -> Iterator[str]:
        """Compare what has become committed on a replica. Yield the differences."""
        key = node.name, node.incarnation
        place = self._compared.get(key)
        if place is None or place.log is not log:  # a replica that was removed may be added again
            place = Place(log, 0, 0, 0)
        end = log.high_watermark
        if log.log_end_offset < place.offset:
            yield f"{node.name} has removed committed records from offset {log.log_end_offset} on"
            del self._compared[key]
            return
        if end <= place.offset:
            return
        for segment in log.segments:
            if segment.base_offset < place.base:
                continue
            position = place.position if segment.base_offset == place.base else 0
            content = node.disk.pread(
                segment.opened().descriptor, segment.size - position, position
            )
            for batch in iterate_batches(memoryview(content)):
                if batch.next_offset > end:
                    break
                if not self._adds(batch.base_offset, batch.next_offset, bytes(batch.data)):
                    yield (
                        f"{node.name} has another committed batch at offset {batch.base_offset} "
                        "than was committed there before"
                    )
                    return
                position += len(batch.data)
                place = Place(log, batch.next_offset, segment.base_offset, position)
        self._compared[key] = place

    def _adds(self, base: int, end: int, data: bytes) -> bool:
        """Return whether a batch is the same as before, or is new. Keep it."""
        known = self._batches.get(base)
        if known is not None:
            return known == data
        number = bisect_right(self._bases, base)
        if number and self._ends[self._bases[number - 1]] > base:
            return False
        if number < len(self._bases) and self._bases[number] < end:
            return False
        self._batches[base], self._ends[base] = data, end
        insort(self._bases, base)
        return True


class Place(NamedTuple):
    """A place in a log."""

    log: PartitionLog
    offset: int
    base: int
    """The base offset of the segment."""
    position: int
    """In the segment."""


def _lacking(
    nodes: Sequence[SeenNode],
    name: Key,
    leader: PartitionLeader,
    newest: PartitionRegistration,
    committed: int,
) -> Iterator[str]:
    """Yield the members of the ISR that do not have all records below the offset `committed`."""
    # The leader may know of a change of the ISR before the images of the nodes contain it.
    if (
        newest.leader_epoch != leader.leader_epoch
        or newest.partition_epoch < leader.partition_epoch
    ):
        return
    for node in nodes:
        replica = _replica(node, name) if node.node_id in newest.isr else None
        if replica is not None and replica.log.log_end_offset < committed:
            yield (
                f"{name}: {node.name} is in the ISR and ends at {replica.log.log_end_offset}; "
                f"{committed} was committed"
            )


def _replica(node: SeenNode, name: Key) -> Partition | None:
    return node.replicas.by_id.get(name.topic_id, {}).get(name.partition.partition)
