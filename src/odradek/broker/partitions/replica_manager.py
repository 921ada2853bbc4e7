"""The replicas of this broker, by topic name and by topic id.

`publish` opens, changes and deletes replicas when the metadata changes. Handlers and coordinators
find partitions here.

The replica manager also completes waiting fetches. An append calls `wake` for each fetch that may
now have enough data. These fetches are evaluated in the next iteration of the event loop, when all
requests that have arrived together were dispatched. A waiting fetch is then evaluated once for many
appends.

A request may create ten thousand partitions, and the creation of their files takes seconds.
Therefore only a few partitions are created in each iteration of the event loop. The response to the
request waits until all partitions exist (`opened`), for at most the timeout of the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from odradek.broker.partitions.partition import Partition
from odradek.broker.partitions.topic_counters import Departed
from odradek.core.metadata.delta import MetadataDelta, TopicDelta
from odradek.core.metadata.image import (
    EMPTY_IMAGE,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from odradek.core.metadata.versions import LEVEL_DIRECTORIES
from odradek.log import DiskFull, LogDirectory, LogManager, PartitionLog
from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.primitives import write_uvarint

log = logging.getLogger("odradek.replicas")

ROOM_RETRY_SECONDS = 5.0
"""Delay before the creation of a partition is retried after the disk was full."""
OPENING_SECONDS = 0.004
"""Time that each iteration of the event loop may spend on opening new partitions."""


Assigned = Callable[[], None]
"""Called when the controller has assigned a replica to a log directory."""
ReportDirectory = Callable[[bytes, int, bytes, Assigned | None], None]
"""Called with a topic id, a partition index, the id of a log directory and a callback."""


class Delete(Protocol):
    """`LogManager.delete` or `LogManager.delete_future`."""

    def __call__(self, partition: TopicPartition, /, *, is_stray: bool) -> object:
        """Delete a log, or rename it if it is stray."""
        ...


class LeadershipListener(Protocol):
    """A coordinator, which is notified of the leader elections of its topic's partitions."""

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """Note that this broker leads the partition from now on, in this epoch."""
        ...

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """Note that this broker no longer leads the partition.

        `leader_epoch` is the epoch of the next leader. It is None if the replica was removed.
        """
        ...


class WaitingFetch(Protocol):
    """A Fetch or ShareFetch request that waits for records."""

    def try_complete(self) -> None:
        """Send the response if there is enough data."""
        ...


class Replication(Protocol):
    """Leads and follows the partitions that have several replicas."""

    def follow(self, partition: Partition) -> None:
        """Lead the other replicas, or follow the leader, as the registration says."""
        ...

    def leave(self, partition: Partition) -> None:
        """Neither lead nor follow any more."""
        ...

    def on_brokers_changed(self) -> None:
        """Apply changed registrations of brokers."""
        ...


class ReplicaManager:
    """The replicas of this broker. Use it only on the event loop's thread."""

    def __init__(self, node_id: int, logs: LogManager, loop: asyncio.AbstractEventLoop) -> None:
        self.node_id = node_id
        self.logs = logs
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.by_wire_topic: dict[bytes, dict[int, Partition]] = {}
        """Partitions by encoded topic: the topic id, or a compact length and the topic name."""
        self.leadership_listeners: dict[str, LeadershipListener] = {}
        """The listener of each topic whose elections a coordinator needs, by topic name."""
        self.resignation_listeners: list[Callable[[Partition], None]] = []
        """Functions that are called when this broker no longer leads a partition."""
        self.departed = Departed()
        """What partitions have counted that are no longer here."""
        self._image = EMPTY_IMAGE
        self._offline: dict[tuple[str, int], None] = {}
        self._loop = loop
        self._woken: dict[WaitingFetch, None] = {}
        self._replication: Replication | None = None
        self._report_directory: ReportDirectory | None = None
        self._continue_move: Callable[[Partition], None] | None = None
        self._assigned_ahead: set[TopicPartition] = set()
        """Replicas that are being moved, and that are assigned to their new directory."""
        self._to_open: deque[tuple[bytes, int, bool]] = deque()
        """Replicas that `publish` has not opened yet: topic id, index, and whether this broker gets
        the replica for the first time."""
        self._all_open = asyncio.Event()
        self._all_open.set()

    def replicate(self, replication: Replication) -> None:
        """Replicate partitions with more than one replica. Without this call, each partition is
        served as if this broker had the only replica."""
        self._replication = replication

    def report_directories(self, report: ReportDirectory) -> None:
        """Call `report` for each replica whose log directory is not the one in the metadata."""
        self._report_directory = report

    def continue_moves(self, continue_move: Callable[[Partition], None]) -> None:
        """Call `continue_move` for each partition that is opened and has a future log."""
        self._continue_move = continue_move

    @property
    def offline_count(self) -> int:
        """Number of replicas whose log cannot be used: the disk has failed or is full."""
        return len(self._offline)

    # -- finding ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def find(self, topic: str, index: int) -> Partition:
        """Return the partition with this topic name and index.

        Raises:
            ApiError: the partition is not on this broker (`why_missing`).
        """
        partitions = self.by_name.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            raise ApiError(self.why_missing(topic, index))
        return partition

    def broker_of(self, broker_id: int) -> BrokerRegistration | None:
        """Return the registration of a broker in the metadata that the replicas have."""
        return self._image.cluster.brokers.get(broker_id)

    def why_missing(
        self, topic: str | bytes, index: int, known_name: str | None = None
    ) -> ErrorCode:
        """Return the error for a partition that is not here; `topic` is the topic's name or id.

        `known_name` is the name that the topic with this id had; None if this is not known.
        """
        if isinstance(topic, bytes):
            known = self._image.topics.by_id.get(topic)
            if known is None and known_name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            if known is None and index in self.by_name.get(known_name or "", ()):
                return ErrorCode.INCONSISTENT_TOPIC_ID
            topic = known_name or "" if known is None else known.name
        if (topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._image.topics.partition(topic, index) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- waking -----------------------------------------------------------------------------

    def wake(self, fetch: WaitingFetch) -> None:
        """Evaluate a waiting fetch in the next iteration of the event loop."""
        if not self._woken:
            self._loop.call_soon(self._complete_woken)
        self._woken[fetch] = None

    def _complete_woken(self) -> None:
        """Complete the fetches that `wake` added, if they have enough data."""
        woken, self._woken = self._woken, {}
        for fetch in woken:
            fetch.try_complete()

    def expire_all(self) -> None:
        """At shutdown: complete every waiting fetch with the available data, and open no more
        partitions."""
        self._to_open.clear()
        self._all_open.set()
        for partition in self:
            partition.expire_waiters()

    # -- disks ------------------------------------------------------------------------------

    def go_offline(self, logs: Iterable[PartitionLog]) -> None:
        """Take the partitions of a failed log directory offline."""
        for each in logs:
            topic, index = each.topic_partition
            self._offline[each.topic_partition] = None
            partition = self.by_name.get(topic, {}).get(index)
            if partition is not None:
                self._drop(partition, delete=False)

    # -- metadata ---------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Open the replicas of this broker at the start of the node.

        Logs of partitions that this broker should not have are renamed (stray logs). For example, a
        topic was deleted while the node was stopped, and perhaps created again.
        """
        self._image = image
        for each in list(self.logs):
            if self._is_stray(each):
                log.warning("%s belongs to no partition of this broker, and is renamed", each.path)
                self._delete(self.logs.delete, each.topic_partition, is_stray=True)
        for name, future in list(self.logs.futures.items()):
            if self._is_stray(future):
                log.warning("%s belongs to no partition of this broker: renamed", future.path)
                self._delete(self.logs.delete_future, name, is_stray=True)
        for topic in image.topics.by_id.values():
            for index, registration in topic.partitions.items():
                if self.node_id in registration.replicas:
                    self._open(topic, index, registration)

    def _is_stray(self, partition_log: PartitionLog) -> bool:
        """Whether a log belongs to no partition of this broker. Old logs have no topic id."""
        name, index = partition_log.topic_partition
        topic = self._image.topics.by_name.get(name)
        registration = None if topic is None else topic.partitions.get(index)
        if topic is None or registration is None or self.node_id not in registration.replicas:
            return True
        return partition_log.topic_id not in (None, topic.id)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change to the replicas of this broker."""
        self._image = image
        for topic_id, name in delta.topics.deleted:
            self._delete_topic(topic_id, name)
        for topic_id, topic_delta in delta.topics.changed.items():
            topic = image.topics.by_id.get(topic_id)
            if topic is not None:
                self._change_topic(topic, topic_delta)
        if self._replication is not None and delta.cluster.brokers.changed:
            self._replication.on_brokers_changed()
        if self._all_open.is_set():
            self._open_some()

    def _change_topic(self, topic: TopicImage, delta: TopicDelta) -> None:
        partitions_before = {} if delta.image_before is None else delta.image_before.partitions
        for index, registration in delta.partitions.items():
            here = self.node_id in registration.replicas
            known = self.by_id.get(topic.id, {}).get(index)
            if known is None and here:
                before = partitions_before.get(index)
                is_new = before is None or self.node_id not in before.replicas
                self._to_open.append((topic.id, index, is_new))
            elif known is not None and here:
                self._update(known, registration)
            elif known is not None:
                self._drop(known, delete=True)
            else:
                self._offline.pop((topic.name, index), None)

    def _open(
        self,
        topic: TopicImage,
        index: int,
        registration: PartitionRegistration,
        is_new: bool = False,
    ) -> None:
        name = TopicPartition(topic.name, index)
        directory_id = uuids.DIRECTORY_UNASSIGNED
        if registration.directories:
            directory_id = registration.directories[registration.replicas.index(self.node_id)]
        try:
            partition_log = self.logs.get_or_create(
                name, topic.id, is_new=is_new, directory_id=directory_id
            )
        except ApiError as error:
            log.error("partition %s is offline: %s", name, error.message)
            self._offline[name] = None
            if isinstance(error, DiskFull):
                self._loop.call_later(ROOM_RETRY_SECONDS, self._open_known, topic.id, index, True)
            return
        self._offline.pop(name, None)
        if registration.leader == self.node_id:
            partition_log.on_leader_epoch(registration.leader_epoch)
        partition = Partition(
            topic.name,
            topic.id,
            index,
            partition_log,
            registration,
            self.node_id,
            self.logs.when_flushed,
        )
        self._replicate(partition)
        partitions = self.by_id.get(topic.id)
        if partitions is None:
            partitions = self.by_id[topic.id] = self.by_name[topic.name] = {}
            for wire_name in _wire_names(topic.name, topic.id):
                self.by_wire_topic[wire_name] = partitions
        partitions[index] = partition
        if self._continue_move is not None and name in self.logs.futures:
            self._continue_move(partition)
        self._check_directory(partition)
        if partition.is_leader:
            self._elected(partition)

    # -- log directories (KIP-858) ----------------------------------------------------------

    def _check_directory(self, partition: Partition) -> None:
        """Report the replica's log directory if the metadata contain another one."""
        here = partition.log.directory.id
        if here is None or TopicPartition(partition.topic, partition.index) in self._assigned_ahead:
            return
        if partition.registration.directory(self.node_id) != here:
            self._report(partition, here)

    def _report(
        self, partition: Partition, directory_id: bytes, assigned: Assigned | None = None
    ) -> bool:
        """Report a log directory. Return False if the metadata have no directories."""
        report = self._report_directory
        if report is None or self._image.features.metadata_version < LEVEL_DIRECTORIES:
            return False
        report(partition.topic_id, partition.index, directory_id, assigned)
        return True

    def is_assigned_to(self, partition: Partition, directory: LogDirectory) -> bool:
        """Whether the metadata contain this directory for a replica."""
        is_known = directory.id is not None and bool(partition.registration.directories)
        return is_known and partition.registration.directory(self.node_id) == directory.id

    def assign_ahead(
        self, partition: Partition, directory: LogDirectory, assigned: Assigned
    ) -> bool:
        """Let the controller assign a replica to the directory to which it is being moved.

        `assigned` is called when the controller has done this. Return False if the metadata have no
        directories. Then nothing is sent.
        """
        if directory.id is None:
            return False
        name = TopicPartition(partition.topic, partition.index)
        if self.is_assigned_to(partition, directory):
            self._assigned_ahead.add(name)  # before a restart of the node
            assigned()
            return True
        is_sent = self._report(partition, directory.id, assigned)
        if is_sent:
            self._assigned_ahead.add(name)
        return is_sent

    def undo_assignment(self, partition: Partition, directory: LogDirectory) -> None:
        """Undo `assign_ahead`: the replica stays in `directory`, which may be offline now."""
        self._assigned_ahead.discard(TopicPartition(partition.topic, partition.index))
        if directory.id is not None:
            self._report(partition, directory.id)

    def _replicate(self, partition: Partition) -> None:
        """Apply the partition's registration to its replication."""
        replication = self._replication
        if replication is None:
            partition.on_appended(0, 0)
        elif partition.is_replicated:
            replication.follow(partition)
        else:
            replication.leave(partition)
            partition.on_appended(0, 0)

    def _open_some(self) -> None:
        """Open waiting partitions: at least one, and more within the time limit."""
        deadline = self._loop.time() + OPENING_SECONDS
        while self._to_open:
            self._open_known(*self._to_open.popleft())
            if self._loop.time() >= deadline:
                break
        if self._to_open:
            self._all_open.clear()
            self._loop.call_soon(self._open_some)
        else:
            self._all_open.set()

    async def opened(self, timeout_ms: int) -> bool:
        """Wait until every published partition is open; return False on timeout."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._all_open.wait()
        except TimeoutError:
            return False
        return True

    def _open_known(self, topic_id: bytes, index: int, is_new: bool) -> None:
        """Open a partition if it is still assigned to this broker."""
        topic = self._image.topics.by_id.get(topic_id)
        registration = None if topic is None else topic.partitions.get(index)
        if topic is None or registration is None or self.node_id not in registration.replicas:
            return
        if index not in self.by_id.get(topic_id, {}):
            self._open(topic, index, registration, is_new)

    def _elected(self, partition: Partition) -> None:
        listener = self.leadership_listeners.get(partition.topic)
        if listener is not None:
            listener.on_election(partition.index, partition.registration.leader_epoch)

    def _resigned(self, partition: Partition, leader_epoch: int | None) -> None:
        for resigned in self.resignation_listeners:
            resigned(partition)
        listener = self.leadership_listeners.get(partition.topic)
        if listener is not None:
            listener.on_resignation(partition.index, leader_epoch)

    def _update(self, partition: Partition, registration: PartitionRegistration) -> None:
        before, led = partition.registration, partition.is_leader
        partition.update(registration)
        self._check_directory(partition)
        is_new_epoch = before.leader_epoch != registration.leader_epoch
        if partition.is_leader and is_new_epoch:
            partition.log.on_leader_epoch(registration.leader_epoch)
        if self._replication is not None and (partition.is_replicated or len(before.replicas) > 1):
            self._replicate(partition)
        if not is_new_epoch:
            return
        if partition.is_leader:
            self._elected(partition)
        elif led:
            self._resigned(partition, registration.leader_epoch)
            partition.fail_uncommitted(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        partition.expire_waiters()

    def _delete_topic(self, topic_id: bytes, name: str) -> None:
        for partition in list(self.by_id.get(topic_id, {}).values()):
            self._drop(partition, delete=True)
        for each in [each for each in self._offline if each[0] == name]:
            self._offline.pop(each, None)
            self._delete(self.logs.delete, TopicPartition(*each))

    def _drop(self, partition: Partition, delete: bool) -> None:
        if partition.is_leader:
            self._resigned(partition, None)
        partition.resign()
        if self._replication is not None:
            self._replication.leave(partition)
        by_id = self.by_id.get(partition.topic_id, {})
        by_id.pop(partition.index, None)
        self.departed.add(partition, is_last=not by_id)
        if not by_id:
            self.by_id.pop(partition.topic_id, None)
            for wire_name in _wire_names(partition.topic, partition.topic_id):
                if self.by_wire_topic.get(wire_name) is by_id:
                    del self.by_wire_topic[wire_name]
            if self.by_name.get(partition.topic) is by_id:
                del self.by_name[partition.topic]
        if delete:
            self._delete(self.logs.delete, TopicPartition(partition.topic, partition.index))
        reason = self.why_missing(partition.topic, partition.index)
        partition.fail_uncommitted(ApiError(reason))
        partition.expire_waiters()

    def replace_log(self, partition: Partition, *, is_assigned: bool) -> None:
        """Let the future log of a partition replace its log (`LogManager.promote_future`).

        Requests that wait at the partition go on to wait, and coordinators notice nothing. A
        follower begins to fetch again, from the same offset.

        Raises:
            DiskFull, LogDirectoryOffline: a disk is full or failed. The log is not replaced.
        """
        name = TopicPartition(partition.topic, partition.index)
        partition.use_log(self.logs.promote_future(name, is_assigned=is_assigned))
        self._assigned_ahead.discard(name)
        if self._replication is not None and partition.is_replicated and not partition.is_leader:
            self._replication.leave(partition)
            self._replication.follow(partition)
        self._check_directory(partition)

    def _delete(self, delete: Delete, name: TopicPartition, *, is_stray: bool = False) -> None:
        """Delete a log. If its disk fails, the log directory is offline, and the node goes on."""
        try:
            delete(name, is_stray=is_stray)
        except ApiError as error:
            log.error("the files of %s could not be deleted: %s", name, error.message)


def _wire_names(topic: str, topic_id: bytes) -> tuple[bytes, bytes]:
    raw = topic.encode()
    return topic_id, write_uvarint(len(raw) + 1) + raw
