"""Finds a replica of a partition in the log directories of this machine, and what is safe to read.

A directory `TOPIC-PARTITION` is used only if it is a replica of the partition that the brokers mean:

- `meta.properties` of the log directory has the cluster id that the brokers return,
- `partition.metadata` has the topic id: a topic that was created again has another one,
- the node in `meta.properties` is the leader or in the ISR, and responds,
- no other log directory has the partition, too.

A `Replica` is valid for a moment; its docstring says what of it may be read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.leader_epochs import end_of_epoch
from odradek.client.metadata import Partition
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition
from odradek.spark import resolution
from odradek.spark.segments import SegmentsChangedError
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
HIGH_WATERMARKS = "replication-offset-checkpoint"
ALIVE_WAIT_MS = 5_000
"""How long a follower may take to respond."""


class NoReplicaError(Exception):
    """This machine has no replica of the partition that can be read. The message says why."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The files of a replica, and the offsets that may be read from them.

    The broker has answered that all records before `end` are readable (below the high watermark, or
    below the last stable offset), so they are complete in the leader's files, and no leader change
    truncates them. This does not hold for a follower: its log may end earlier, and what it has from
    a former leader may be truncated. Therefore `end` is also limited by the high watermark that the
    follower itself has stored, and `has` must be asked about what was read.
    """

    path: str
    inode: int
    """The inode of the directory. If the topic is created again, it has another one."""
    topic_partition: TopicPartition
    leader: Partition
    is_leader: bool
    start: int
    """The log start offset."""
    end: int
    high_watermark: int
    """The leader's high watermark, which was asked for after `end` was."""
    stored_high_watermark: int | None
    """The high watermark that a follower has stored; None for the leader."""

    @property
    def has_all_markers(self) -> bool:
        """Whether the transaction indexes have all aborted transactions with records before `end`.

        Their markers may be after `end`, but are before the high watermark.
        """
        stored = self.stored_high_watermark
        return stored is None or stored >= self.high_watermark

    def check_directory(self) -> None:
        """Check that the directory still has its name.

        Raises:
            SegmentsChangedError: the topic was deleted, or the replica was moved.
            OSError: this cannot be checked.
        """
        try:
            is_same = os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise SegmentsChangedError(f"{self.path} was removed or replaced")

    def has(self, cluster: Cluster, epoch: int, last_offset: int) -> bool:
        """Return whether the leader's log has the same records up to a batch.

        `epoch` is the leader epoch of the batch. If the leader has a batch of this epoch at the same
        offset, both logs are equal up to it (KIP-101).

        Raises:
            ClientError: the leader does not respond, or is not the leader any more.
        """
        if self.is_leader:
            return True
        found, end = end_of_epoch(cluster, self.topic_partition, self.leader, epoch)
        return found == epoch and last_offset < end


def find(
    cluster: Cluster,
    directories: Sequence[str],
    topic_partition: TopicPartition,
    read_committed: bool,
) -> Replica:
    """Find the replica of a partition, and ask the brokers what is safe to read.

    Raises:
        NoReplicaError: there is none, or it cannot be read.
        ClientError: a broker does not respond, or returns an error.
    """
    name, number = topic_partition
    cluster.refresh([name])
    topic = cluster.topic(name)
    leader = topic.partitions.get(number)
    if leader is None or leader.leader < 0:
        raise NoReplicaError("it has no leader")
    directory = _directory(directories, topic_partition)
    path = f"{directory}/{topic_partition}"
    inode = _inode(path)
    properties = _properties(f"{directory}/{META_PROPERTIES}", "=")
    cluster_id, node_id = properties.get("cluster.id"), _node_id(properties, directory)
    if cluster_id != cluster.metadata.cluster_id:
        raise NoReplicaError(
            f"{directory} belongs to cluster {cluster_id}, not to {cluster.metadata.cluster_id}"
        )
    topic_id = _properties(f"{path}/{PARTITION_METADATA}", ":").get("topic_id", "")
    if not any(topic.id) or topic_id != uuids.to_text(topic.id):
        raise NoReplicaError(
            f"{path} belongs to a topic with the id {topic_id}, not {uuids.to_text(topic.id)}"
        )
    if node_id not in {leader.leader, *leader.in_sync}:
        raise NoReplicaError(f"the replica on node {node_id} in {path} is not in sync")
    # The high watermark comes last: transactions that ended before the last stable offset was
    # computed have their markers below it.
    start = resolution.beginnings(cluster, [topic_partition])[topic_partition]
    end = resolution.ends(cluster, [topic_partition], read_committed)[topic_partition]
    high_watermark = resolution.ends(cluster, [topic_partition], False)[topic_partition]
    if cluster.topic(name).partitions.get(number) != leader:
        raise NoReplicaError("its leader has just changed")
    is_leader = node_id == leader.leader
    stored = None
    if not is_leader:
        _check_alive(cluster, node_id)
        stored = _stored_high_watermark(directory, topic_partition)
    return Replica(
        path=path,
        inode=inode,
        topic_partition=topic_partition,
        leader=leader,
        is_leader=is_leader,
        start=start,
        end=end if stored is None else min(end, stored),
        high_watermark=high_watermark,
        stored_high_watermark=stored,
    )


def _directory(directories: Sequence[str], topic_partition: TopicPartition) -> str:
    """Return the log directory that has the partition."""
    found = [each for each in directories if os.path.isdir(f"{each}/{topic_partition}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoReplicaError(f"{' and '.join(found)} have it; only one can be the right one")
    for each in directories:
        try:
            os.listdir(each)
        except OSError as error:
            raise NoReplicaError(f"{each}: {error.strerror}") from None
    raise NoReplicaError(f"{', '.join(directories)} has no directory {topic_partition}")


def _check_alive(cluster: Cluster, node_id: int) -> None:
    """Check that a follower responds.

    A broker that starts after a crash does not respond before it has repaired its logs. In the
    meantime, its transaction indexes lack entries, and it may still be in the ISR.

    Raises:
        ClientError: it does not respond.
    """
    cluster.node(node_id).request(MetadataRequest(topics=[]), MetadataResponse, ALIVE_WAIT_MS)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError as error:
        raise NoReplicaError(f"{path}: {error.strerror}") from None


def _node_id(properties: dict[str, str], directory: str) -> int:
    text = properties.get("node.id") or properties.get("broker.id") or ""
    if not text.isdecimal():
        raise NoReplicaError(f"{directory}/{META_PROPERTIES} has no node.id")
    return int(text)


def _properties(path: str, separator: str) -> dict[str, str]:
    """Return the lines `name separator value` of a file."""
    pairs = (line.partition(separator)[::2] for line in _text(path).splitlines())
    return {name.strip(): value.strip() for name, value in pairs}


def _stored_high_watermark(directory: str, topic_partition: TopicPartition) -> int:
    """Return the high watermark in the checkpoint of a log directory; 0 if it has none.

    The broker stores it every few seconds. When it was stored, everything below it was complete in
    the files, including the transaction indexes.
    """
    topic, partition = topic_partition
    path = f"{directory}/{HIGH_WATERMARKS}"
    for line in _text(path).splitlines() if os.path.exists(path) else ():
        fields = line.split()
        if fields[:2] == [topic, str(partition)] and len(fields) == 3 and fields[2].isdecimal():
            return int(fields[2])
    return 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise NoReplicaError(f"{path}: {error.strerror}") from None
