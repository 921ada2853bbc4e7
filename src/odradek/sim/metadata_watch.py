"""Checks the metadata quorum and the images of the nodes while a simulated cluster runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import NO_LEADER, PartitionRegistration
from odradek.core.raft.election import ElectionState
from odradek.core.raft.leader import Leader
from odradek.sim.seen_node import SeenNode

DURABLE_AFTER_NS = 2_000_000_000
"""An election state that has not changed for this time is on the disk."""


class _Election(NamedTuple):
    """The election state of a node, with the times when it was first and last seen."""

    incarnation: int
    state: ElectionState
    first_ns: int
    last_ns: int


class QuorumWatch:
    """Checks the metadata quorum.

    - An epoch has at most one leader.
    - A node that restarts still knows its epoch, and its vote in this epoch.
    - A committed batch of the metadata log never changes, and is the same on all nodes.
    """

    def __init__(self) -> None:
        self._leaders: dict[int, str] = {}
        self._elections: dict[str, _Election] = {}
        self._batches: dict[int, tuple[int, int, int]] = {}
        """The next offset, the epoch and the checksum of each committed batch, by base offset."""
        self._compared: dict[tuple[str, int], int] = {}
        """The end of the compared batches, by node and incarnation."""

    def look(self, now_ns: int, nodes: Sequence[SeenNode]) -> Iterator[str]:
        """Yield the violations."""
        for node in nodes:
            yield from self._check_leader(node)
            yield from self._check_election(now_ns, node)
            yield from self._check_committed(node)

    def _check_leader(self, node: SeenNode) -> Iterator[str]:
        role = node.raft.machine.role
        if isinstance(role, Leader):
            known = self._leaders.setdefault(role.epoch, node.name)
            if known != node.name:
                yield f"epoch {role.epoch} of the quorum has two leaders: {known}, {node.name}"

    def _check_election(self, now_ns: int, node: SeenNode) -> Iterator[str]:
        state = node.raft.machine.role.election()
        before = self._elections.get(node.name)
        if before is None:
            first_ns = now_ns
        elif before.incarnation == node.incarnation:
            first_ns = before.first_ns if state == before.state else now_ns
        else:
            first_ns = now_ns
            if before.last_ns - before.first_ns >= DURABLE_AFTER_NS:
                yield from _forgotten(node.name, before.state, state)
        self._elections[node.name] = _Election(node.incarnation, state, first_ns, now_ns)

    def _check_committed(self, node: SeenNode) -> Iterator[str]:
        key = node.name, node.incarnation
        log = node.raft.log
        end = node.raft.high_watermark
        offset = max(self._compared.get(key, 0), log.start_offset)
        if end <= offset:
            return
        for batch in log.batches(offset):
            if batch.next_offset > end:
                break
            identity = batch.next_offset, batch.leader_epoch, batch.crc
            if self._batches.setdefault(batch.base_offset, identity) != identity:
                yield (
                    f"{node.name} has another committed metadata batch at offset "
                    f"{batch.base_offset} than was committed there before"
                )
            offset = batch.next_offset
        self._compared[key] = offset


def _forgotten(name: str, before: ElectionState, now: ElectionState) -> Iterator[str]:
    if now.epoch < before.epoch:
        yield f"{name} has forgotten epoch {before.epoch} of the quorum in its restart"
    elif (
        now.epoch == before.epoch
        and before.voted is not None
        and (now.voted is None or now.voted.id != before.voted.id)
    ):
        yield f"{name} has forgotten in its restart that it voted for {before.voted.id}"


class ImageWatch:
    """Checks the images of the nodes.

    - Two images at the same offset are equal, also after a restart.
    - The leader of a partition is in the ISR, and neither the leader nor another member of a larger
      ISR is fenced.
    """

    def __init__(self) -> None:
        self._seen: dict[str, MetadataImage] = {}
        self._by_offset: dict[int, MetadataImage] = {}

    def look(self, now_ns: int, nodes: Sequence[SeenNode]) -> Iterator[str]:
        """Yield the violations."""
        for node in nodes:
            image = node.image
            if self._seen.get(node.name) is image:
                continue
            self._seen[node.name] = image
            known = self._by_offset.setdefault(image.offset, image)
            if known is image:
                yield from _invalid(image)
            elif known != image:
                yield (
                    f"{node.name} has another image of the metadata at offset {image.offset} than "
                    f"another node had"
                )


def _invalid(image: MetadataImage) -> Iterator[str]:
    brokers = image.cluster.brokers
    fenced = {each.id for each in brokers.values() if each.fenced}
    for topic in image.topics.by_name.values():
        for index, partition in topic.partitions.items():
            problem = _problem(partition, fenced)
            if problem:
                yield f"{topic.name}-{index} {problem} at metadata offset {image.offset}"


def _problem(partition: PartitionRegistration, fenced: set[int]) -> str:
    leader, isr = partition.leader, partition.isr
    if leader != NO_LEADER and leader not in isr:
        return f"has the leader {leader}, which is not in the ISR {list(isr)},"
    if leader in fenced and len(partition.replicas) > 1:
        return f"is led by broker {leader}, which is fenced,"
    if len(isr) > 1 and not fenced.isdisjoint(isr):
        return f"has a fenced broker in its ISR {list(isr)}"
    return ""


class FencingWatch:
    """Checks that a broker that is down becomes fenced when its session has expired.

    The session is counted from when a controller can decide: it is active, and reaches a majority of
    the voters.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        # An eighth of the session is the grace of a check that runs late.
        self._limit_ns = (session_timeout_ms + session_timeout_ms // 8 + 250) * 1_000_000
        self._active: dict[tuple[str, int, int], int] = {}
        """Since when a controller can decide, by node, incarnation and epoch."""

    def look(
        self, now_ns: int, nodes: Sequence[SeenNode], down: Mapping[int, int]
    ) -> Iterator[str]:
        """Yield the violations.

        `nodes` are the nodes that reach a majority of the voters. `down` has the brokers that are
        down, and since when.
        """
        before, self._active = self._active, {}
        for node in nodes:
            controller = node.controller
            if controller is None or not controller.is_active:
                continue
            key = node.name, node.incarnation, controller.epoch
            since_ns = self._active[key] = before.get(key, now_ns)
            for broker_id, down_ns in down.items():
                broker = controller.image.cluster.brokers.get(broker_id)
                waited_ns = now_ns - max(since_ns, down_ns)
                if broker is not None and not broker.fenced and waited_ns > self._limit_ns:
                    yield f"broker {broker_id} is down and is not fenced by {node.name}"
