"""Checks the replicas of all partitions while a simulated cluster runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from odradek.broker.partitions.partition import Partition
from odradek.core.metadata.registrations import PartitionRegistration
from odradek.core.replica.leader import PartitionLeader
from odradek.log.partition_log import PartitionLog
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import iterate_batches
from odradek.sim.lossy_file_system import LossyFileSystem
from odradek.sim.seen_node import SeenNode


class ReplicaWatch:
    """Checks the replicas.

    - A leader epoch of a partition has at most one leader.
    - The high watermark of a leader never moves down.
    - What is committed never changes, and is the same on all replicas. This is not checked in
      internal topics, because they are compacted, and in topics whose records are deleted.
    - All members of the ISR have all records that were ever committed.
    """

    def __init__(self, changing: Collection[str] = ()) -> None:
        """`changing` are the topics whose records are deleted."""
        self._changing = changing
        self._leaders: dict[tuple[TopicPartition, int], str] = {}
        self._high_watermarks: dict[tuple[str, int, TopicPartition, int], int] = {}
        """The high watermark of each leader: by node, incarnation, partition and leader epoch."""
        self._contents: dict[TopicPartition, CommittedContent] = {}
        self._committed: dict[TopicPartition, int] = {}
        """The highest high watermark that any replica had."""
        self._registrations: dict[TopicPartition, PartitionRegistration] = {}
        """The newest registration that any image had. The nodes that run now may have older ones."""

    def look(self, now_ns: int, nodes: Sequence[SeenNode]) -> Iterator[str]:
        """Yield the violations."""
        newest: dict[TopicPartition, PartitionLeader] = {}
        for node in nodes:
            for partition in node.replicas:
                name, log = partition.log.topic_partition, partition.log
                if log.high_watermark > self._committed.get(name, 0):
                    self._committed[name] = log.high_watermark
                leading = partition.leading
                if leading is not None and partition.is_leader:
                    leader = leading.machine
                    yield from self._check_leader(node, name, leader)
                    other = newest.get(name)
                    if other is None or leader.leader_epoch > other.leader_epoch:
                        newest[name] = leader
                if not partition.is_internal and name.topic not in self._changing:
                    content = self._contents.setdefault(name, CommittedContent())
                    for problem in content.compare(node, log):
                        yield f"{name}: {problem}"
        for name, leader in newest.items():
            registration = self._newest_registration(nodes, name)
            if registration is not None:
                committed = self._committed.get(name, 0)
                yield from _lacking(nodes, name, leader, registration, committed)

    def _newest_registration(
        self, nodes: Sequence[SeenNode], name: TopicPartition
    ) -> PartitionRegistration | None:
        newest = self._registrations.get(name)
        for node in nodes:
            found = node.image.topics.partition(*name)
            if found is not None and (
                newest is None or found.partition_epoch > newest.partition_epoch
            ):
                newest = self._registrations[name] = found
        return newest

    def _check_leader(
        self, node: SeenNode, name: TopicPartition, leader: PartitionLeader
    ) -> Iterator[str]:
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
    """The committed bytes of a partition, and how far each replica was compared with them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._compared: dict[tuple[str, int], tuple[int, int]] = {}
        """The offset and the position up to which a replica was compared, by node and
        incarnation."""

    def compare(self, node: SeenNode, log: PartitionLog) -> Iterator[str]:
        """Compare what has become committed on a replica. Yield the differences."""
        key = node.name, node.incarnation
        offset, position = self._compared.get(key, (0, 0))
        end = log.high_watermark
        if log.log_end_offset < offset:
            yield f"{node.name} has removed committed records from offset {log.log_end_offset} on"
            del self._compared[key]
            return
        if end <= offset:
            return
        data = self._data
        for batch in iterate_batches(_content(node.disk, log, position)):
            if batch.next_offset > end:
                break
            content = bytes(batch.data)
            if position == len(data):
                data += content
            elif data[position : position + len(content)] != content:
                yield (
                    f"{node.name} has another committed batch at offset {batch.base_offset} than "
                    "was committed there before"
                )
                return
            position += len(content)
            offset = batch.next_offset
        self._compared[key] = offset, position


def _content(disk: LossyFileSystem, log: PartitionLog, position: int) -> bytes:
    """Return the bytes of a log from a position on."""
    parts = []
    for segment in log.segments:
        if position < segment.size:
            descriptor = segment.opened().descriptor
            parts.append(disk.pread(descriptor, segment.size - position, position))
        position = max(0, position - segment.size)
    return b"".join(parts)


def _lacking(
    nodes: Sequence[SeenNode],
    name: TopicPartition,
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


def _replica(node: SeenNode, name: TopicPartition) -> Partition | None:
    return node.replicas.by_name.get(name.topic, {}).get(name.partition)
