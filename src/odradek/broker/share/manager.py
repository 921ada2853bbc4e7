"""The share partitions on this broker, and the share sessions (Kafka's `SharePartitionManager`).

A share partition is created when the first member fetches from it. It is removed when this broker
no longer leads the partition, when the share coordinator has fenced it, or when the last connection
of the group's members is closed. Removed share partitions are loaded again when a member fetches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Final

from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.partition import Partition
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.share.dead_letters import DeadLetterWriter
from odradek.broker.share.local import LocalSharePartition, Tasks
from odradek.broker.share.persister import Persister
from odradek.broker.share.settings import ShareGroupSettings
from odradek.broker.share.topic_counts import ShareTopicCounts
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import duration_ms
from odradek.core.share.acknowledgement import AcknowledgementBatch
from odradek.core.share.session import PartitionKey, SessionKey, ShareSession, ShareSessions
from odradek.env.clock import Clock
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.log.results import TimestampOffset
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.telemetry.request_metrics import Distribution

log: Final = logging.getLogger("odradek.share")

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_FENCING: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors after which a share partition must be loaded again."""


class SharePartitionManager:
    """All share partitions of a broker. Use it only on the event loop's thread."""

    def __init__(
        self,
        replicas: ReplicaManager,
        persister: Persister,
        dead_letters: DeadLetterWriter,
        metadata: MetadataCache,
        config: Callable[[], BrokerConfig],
        cold_reads: ColdReads,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`config` returns the newest configuration of the broker."""
        self.sessions = ShareSessions(config().group_share_max_share_sessions)
        self.settings = ShareGroupSettings(metadata, config)
        self._replicas = replicas
        self._persister = persister
        self.dead_letters = dead_letters
        self._settling: dict[tuple[str, PartitionKey], LocalSharePartition] = {}
        """Share partitions that were removed, but have not finished their writes."""
        self._cold_reads = cold_reads
        self._clock = clock
        self._loop = loop
        self._groups: dict[str, dict[PartitionKey, LocalSharePartition]] = {}
        self._connections: dict[Peer, dict[SessionKey, None]] = {}
        """The sessions that were opened on each connection."""
        self._groups_of: dict[Peer, set[str]] = {}
        """The groups of all sessions that were opened on each connection, also of closed ones."""
        self._tasks = Tasks(loop)
        self.topic_counts = ShareTopicCounts()
        self.load_times = Distribution()
        """The µs that it took to load share partitions (a metric)."""
        self.acknowledged: Counter[int] = Counter()
        """Number of acknowledged records by the type of acknowledgement (a metric)."""
        replicas.resignation_listeners.append(self.on_resigned)

    def __iter__(self) -> Iterator[LocalSharePartition]:
        for partitions in self._groups.values():
            yield from partitions.values()

    # -- share partitions -----------------------------------------------------------------------

    def find(self, group_id: str, key: PartitionKey) -> LocalSharePartition | None:
        """Return a share partition; None if it is not on this broker."""
        return self._groups.get(group_id, {}).get(key)

    def get(self, group_id: str, key: PartitionKey) -> LocalSharePartition:
        """Return a share partition. If it is not here yet, it is loaded.

        Raises:
            ApiError: this broker does not lead the partition, or the partition does not exist.
        """
        found = self.find(group_id, key)
        if found is not None:
            return found
        partition = self._replicas.by_id.get(key[0], {}).get(key[1])
        if partition is None:
            raise ApiError(self._replicas.why_missing(*key))
        partition.check_leader()
        local = LocalSharePartition(
            group_id,
            partition,
            lambda: self.settings.of(group_id),
            self._persister,
            self.dead_letters,
            self._clock,
            self._loop,
            self._tasks,
            self._replicas.wake,
        )
        self._groups.setdefault(group_id, {})[key] = local
        began_ns = self._clock.monotonic_ns()
        local.load(
            self._find_start,
            lambda loaded: self._on_loaded(loaded, began_ns),
            self._settling.get((group_id, key)),
        )
        return local

    def _on_loaded(self, local: LocalSharePartition, began_ns: int) -> None:
        self.load_times.add((self._clock.monotonic_ns() - began_ns) // 1000)
        if local.load_error is not None:
            log.debug("a share partition of %s has failed: %s", local.group_id, local.load_error)
            self._remove(local)

    async def _find_start(self, partition: Partition, group_id: str) -> int:
        """See `FindStart`."""
        partition.check_leader()
        reset = self.settings.offset_reset(group_id)
        if reset == EARLIEST:
            return partition.log.log_start_offset
        if reset == LATEST:
            if partition.is_behind_epoch:
                raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
            return partition.log.high_watermark
        timestamp = self._clock.now_ms() - int(duration_ms(reset.partition(":")[2]))

        def look(files: FileSystem) -> TimestampOffset | None:
            return partition.log.offset_for_timestamp(max(0, timestamp), files)

        try:
            found = look(self._cold_reads.non_blocking)
        except ReadWouldBlock as missing:
            found = await self._cold_reads.look_again(look, missing)
        if found is None or found.offset >= partition.log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return found.offset

    def on_resigned(self, partition: Partition) -> None:
        """Remove the share partitions of a partition that this broker no longer leads."""
        key = (partition.topic_id, partition.index)
        for partitions in list(self._groups.values()):
            local = partitions.get(key)
            if local is not None:
                self._remove(local)

    def check_fenced(self, local: LocalSharePartition, error: ApiError) -> None:
        """Remove a share partition if the error says that its state is no longer valid."""
        if error.code in _FENCING:
            log.info("a share partition of %s is fenced: %s", local.group_id, error)
            self._remove(local)

    def _remove(self, local: LocalSharePartition) -> None:
        key = (local.partition.topic_id, local.partition.index)
        partitions = self._groups.get(local.group_id, {})
        if partitions.get(key) is local:
            del partitions[key]
            if not partitions:
                del self._groups[local.group_id]
        local.fence()
        if local.is_busy:
            self._settling[local.group_id, key] = local
            self._tasks.run(self._settle((local.group_id, key), local))

    async def _settle(self, of: tuple[str, PartitionKey], local: LocalSharePartition) -> None:
        await local.settle()
        if self._settling.get(of) is local:
            del self._settling[of]

    # -- acknowledgements -----------------------------------------------------------------------

    def acknowledge(
        self,
        session: SessionKey,
        key: PartitionKey,
        batches: Sequence[AcknowledgementBatch],
    ) -> asyncio.Future[ApiError | None] | ApiError | None:
        """Apply a member's acknowledgements.

        Return an error, None if there is none, or a future of this result. The result is known when
        the acknowledgements are stored.
        """
        local = self.find(session.group_id, key)
        if local is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            stored = local.acknowledge(session.member_id, batches)
        except ApiError as error:
            return error
        if not isinstance(stored, asyncio.Future):
            self._on_stored(local, batches, stored)
            return stored

        def on_stored(done: asyncio.Future[ApiError | None]) -> None:
            self._on_stored(local, batches, None if done.cancelled() else done.result())

        stored.add_done_callback(on_stored)
        return stored

    def _on_stored(
        self,
        local: LocalSharePartition,
        batches: Sequence[AcknowledgementBatch],
        failure: ApiError | None,
    ) -> None:
        if failure is None:
            self._count(batches)
        else:
            self.check_fenced(local, failure)

    def _count(self, batches: Sequence[AcknowledgementBatch]) -> None:
        for first, last, types in batches:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Start a task that ends when the node stops, at the latest."""
        self._tasks.run(work)

    # -- sessions -------------------------------------------------------------------------------

    def open_session(
        self, key: SessionKey, partitions: Iterable[PartitionKey], peer: Peer
    ) -> ShareSession:
        """Open a session that is closed together with the connection.

        Raises:
            ApiError: SHARE_SESSION_LIMIT_REACHED.
        """
        session = self.sessions.open(key, partitions, peer)
        self._connections.setdefault(peer, {})[key] = None
        self._groups_of.setdefault(peer, set()).add(key.group_id)
        peer.when_closed(self._on_disconnected)
        return session

    def has_session(self, key: SessionKey) -> bool:
        """Return whether the member has a session."""
        return key in self.sessions

    def close_session(self, key: SessionKey) -> None:
        """Close a session, and release the records that the member has acquired."""
        session = self.sessions.remove(key)
        if session is None:
            return
        peer = session.connection
        if isinstance(peer, Peer) and peer in self._connections:
            self._connections[peer].pop(key, None)
        for partition in session.partitions:
            local = self.find(key.group_id, partition)
            if local is not None:
                self._release(local, key.member_id)

    def _release(self, local: LocalSharePartition, member_id: str) -> None:
        try:
            stored = local.release(member_id)
        except ApiError as error:
            log.debug("records of member %s could not be released: %s", member_id, error)
            return
        if isinstance(stored, asyncio.Future):
            self._tasks.run(self._check_stored(local, stored))
        elif stored is not None:
            self.check_fenced(local, stored)

    async def _check_stored(
        self, local: LocalSharePartition, stored: asyncio.Future[ApiError | None]
    ) -> None:
        failure = await stored
        if failure is not None:
            self.check_fenced(local, failure)

    def _on_disconnected(self, peer: Peer) -> None:
        """Close the sessions of a connection. Drop the share partitions of groups without members.

        The group's state is stored. So the broker needs no memory for groups that are not used.
        """
        keys = self._connections.pop(peer, {})
        for key in keys:
            if self.sessions.find_disconnected(key, peer) is not None:
                self.close_session(key)
        for group_id in self._groups_of.pop(peer, ()):
            self._forget_unused(group_id)

    def _forget_unused(self, group_id: str) -> None:
        """Remove the share partitions of a group without sessions. Writes that have begun go on."""
        if not self.sessions.group_size(group_id):
            for local in list(self._groups.get(group_id, {}).values()):
                self._remove(local)
            self.settings.forget(group_id)

    # -- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop all timers and tasks, when the node stops."""
        for local in list(self):
            self._remove(local)
        await self._tasks.close()
