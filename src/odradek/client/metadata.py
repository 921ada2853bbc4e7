"""Cached metadata of the cluster: brokers, topics and partition leaders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from odradek.client.address import Address, Expected
from odradek.client.errors import BrokerError, broker_error
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, with the address that it advertises to clients."""

    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. `leader` is -1 if there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions by index."""

    name: str
    id: bytes
    is_internal: bool
    partitions: dict[int, Partition]

    @property
    def replication_factor(self) -> int:
        """The replication factor of partition 0. Kafka has no number for the whole topic."""
        return len(self.partitions[0].replicas) if 0 in self.partitions else 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """The highest leader epochs that were seen of a topic. A topic that is made again has another id."""

    topic_id: bytes
    epochs: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterMetadata:
    """The merged Metadata responses. `errors` holds the error of each topic that has one."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    errors: dict[str, BrokerError] = field(default_factory=dict)
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def absorb(self, response: MetadataResponse, all_topics: bool) -> None:
        """Merge a response. With `all_topics`, remove the topics that are not in the response.

        A broker may not have heard of a newer leader of a partition yet. What it says about this partition
        is ignored: the former leader must not get requests again.
        """
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.nodes = {
            b.node_id: Node(b.node_id, Address(b.host, b.port), b.rack) for b in response.brokers
        }
        if all_topics:
            self.topics.clear()
            self.errors.clear()
        for each in response.topics:
            name = each.name or ""
            before = self.topics.pop(name, None)
            self.errors.pop(name, None)
            error = broker_error(each.error_code, subject=f"topic {name}")
            if error is not None:
                self.errors[name] = error
            else:
                self.topics[name] = self._merged(before, _topic(name, each))

    def _merged(self, before: Topic | None, topic: Topic) -> Topic:
        """Return a topic of a response, in which older epochs of leaders are replaced."""
        seen = self._seen.get(topic.name)
        if seen is None or seen.topic_id != topic.id:
            seen = self._seen[topic.name] = _Seen(topic.id)
        partitions: dict[int, Partition] = {}
        for index, partition in topic.partitions.items():
            if partition.leader_epoch >= seen.epochs.get(index, -1):
                seen.epochs[index] = partition.leader_epoch
                partitions[index] = partition
            elif before is not None and index in before.partitions:
                partitions[index] = before.partitions[index]
            else:
                partitions[index] = replace(partition, leader=-1)
        return replace(topic, partitions=partitions)

    def expected(self, node_id: int) -> Expected | None:
        """Return what the address of a node should lead to; None if that is unknown."""
        return None if self.cluster_id is None else Expected(self.cluster_id, node_id)

    def forget_nodes(self) -> None:
        """Forget all brokers, because the address of one leads to another node."""
        self.nodes = {}

    def racks_of(self, name: str) -> list[frozenset[str]]:
        """Return the racks of the replicas of each partition of a known topic.

        Brokers that are down, or have no rack, are left out.
        """
        racks = {node.id: node.rack for node in self.nodes.values() if node.rack}
        partitions = self.topics[name].partitions
        return [
            frozenset(racks[each] for each in partitions[index].replicas if each in racks)
            for index in sorted(partitions)
        ]

    def move_leader(
        self, name: str, index: int, leader: int, leader_epoch: int, node: Node | None
    ) -> bool:
        """Note the leader that an error response has named (KIP-951), if its epoch is newer.

        Return whether it is newer, and the address of the leader is known.
        """
        topic = self.topics.get(name)
        known = None if topic is None else topic.partitions.get(index)
        if topic is None or known is None or leader_epoch <= known.leader_epoch:
            return False
        if node is not None:
            self.nodes[leader] = node
        topic.partitions[index] = replace(known, leader=leader, leader_epoch=leader_epoch)
        self._seen[name].epochs[index] = leader_epoch
        return leader in self.nodes


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    return Topic(
        name,
        topic.topic_id,
        topic.is_internal,
        {p.partition_index: _partition(p) for p in partitions},
    )


def _partition(partition: MetadataResponsePartition) -> Partition:
    return Partition(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )
