"""The raft client: appends to the metadata log, and delivers committed records to listeners.

It performs the decisions of the quorum's state machine. Files are synced by the executor: the
election state before a vote counts, the log before records are committed. Everything else runs on
the loop's thread. Appends of one turn of the loop, and all that come during a sync, share the next
sync.

Committed batches are delivered to the listeners from memory if this node appended them in its
present epoch, else from the log, a limited number of bytes in a turn of the loop.

If the disk fails, or a listener cannot apply committed records, the client ends: it resigns,
listeners are notified that there is no leader, and `on_failure` is called once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import assert_never

from odradek.broker.raft.control import (
    KRAFT_VERSION_STATIC,
    ControlMessage,
    QuorumSettings,
    leader_change,
    voters_messages,
)
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch, RaftListener
from odradek.broker.raft.metadata_log import MetadataLog, replay_settings
from odradek.broker.raft.snapshots import SnapshotId, snapshot_batches
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.record import decode_record
from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    Effect,
    ElectionPersisted,
    Event,
    LogFlushed,
    PersistElection,
    Resign,
    Start,
    StopLeading,
)
from odradek.core.raft.machine import Leader, QuorumMachine
from odradek.core.raft.voters import Voter, VoterSet
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.log.flush_state import FlushWork
from odradek.records.batch import RecordBatch
from odradek.records.record import iterate_records
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.metadata")

OnFailure = Callable[[Exception], None]

DELIVERED_BYTES = 1 << 20
"""Bytes of the log that are read and delivered in one turn of the loop."""


class RaftClient:
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        static_voters: VoterSet,
        local: Voter,
        clock: Clock,
        executor: Executor,
        on_failure: OnFailure,
    ) -> None:
        """`local` is this node's description for the voters record.

        `static_voters` are the configured voters, for quorums of kraft.version 0.

        Raises:
            QuorumError: this node cannot be part of the quorum of its log.
            DamagedFile: a snapshot or the quorum's state cannot be read.
            LogDirectoryOffline, OSError: the disk failed.
        """
        self._config = config
        self.log = metadata_log
        self.settings = self._read_settings(static_voters)
        self.machine = QuorumMachine(local.key, self.settings.voters, metadata_log.read_election())
        self._local = local
        self._clock = clock
        self._executor = executor
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._listeners: list[RaftListener] = []
        self._appended: deque[CommittedBatch] = deque()
        """Batches that this node appended in its present epoch, not delivered yet."""
        self._delivered = -1
        """All records below this offset are delivered; -1: nothing is, not even a snapshot."""
        self._is_delivery_scheduled = False
        self._leader = LeaderAndEpoch(NO_LEADER, self.machine.epoch)
        """The leader and epoch that the listeners know."""
        self._persisting = 0
        self._flush: asyncio.Future[None] | None = None
        self._is_flush_scheduled = False
        self.failure: Exception | None = None
        self.flushes = 0
        """Syncs of the log so far; tests count them."""

    def _read_settings(self, static_voters: VoterSet) -> QuorumSettings:
        """kraft.version and the voters as of the end of the log, committed or not."""
        settings = QuorumSettings(static_voters)
        offset = self.log.start_offset
        latest = self.log.latest_snapshot
        if latest is not None:
            snapshot = self.log.read_snapshot(latest)
            if snapshot.settings.kraft_version > 0:
                settings = snapshot.settings
            offset = latest.offset
        for batch in self.log.batches(offset):
            if batch.is_control:
                replay_settings(settings, batch)
        return settings

    def register(self, listener: RaftListener) -> None:
        """Add a listener. All listeners are registered before `start`."""
        assert self._delivered < 0
        self._listeners.append(listener)

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader that the listeners know."""
        return self._leader

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and all records before its epoch are delivered."""
        return self._leader.leader_id == self._local.key.id and self.failure is None

    @property
    def high_watermark(self) -> int:
        """The end of the committed records; -1 while unknown."""
        return self.machine.high_watermark

    def start(self) -> None:
        """Join the quorum. Listeners are called from now on."""
        self._step(Start(self.log.end_offset, self.log.last_epoch))

    def append(self, epoch: int, records: Sequence[Message], values: Iterable[bytes]) -> int:
        """Append records as one batch, to be synced soon; returns its first offset.

        `values` are the encoded `records`. `epoch` is the one in which the caller leads.

        Raises:
            BatchTooLarge: the records do not fit into one batch.
            DiskFull: nothing was appended, and this node still leads.
            LogDirectoryOffline: the disk failed; this node no longer leads.
        """
        assert self.is_leader and epoch == self._leader.epoch, "only the leader appends"  # noqa: PT018
        now_ms = self._clock.now_ms()
        try:
            base_offset, size = self.log.append(values, epoch, now_ms)
        except LogDirectoryOffline as error:
            self._fail(error)
            raise
        end = self.log.end_offset
        self._appended.append(CommittedBatch(base_offset, end, epoch, now_ms, size, records))
        self._schedule_flush()
        return base_offset

    async def close(self) -> None:
        """Sync the appended records, then resign and close the log.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        while self._flush is not None or self._is_flush_scheduled or self._persisting:
            if self._flush is not None:
                await asyncio.wait([self._flush])
            await asyncio.sleep(0)
        self._step(Resign())
        if not isinstance(self.failure, (DiskFull, LogDirectoryOffline)):
            self.log.close()

    # -- effects --------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        for effect in self.machine.step(self._clock.monotonic_ms(), event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PersistElection():
                self._persist(effect.election)
            case BecomeLeader():
                self._become_leader(effect)
            case CommitUpTo():
                self.log.set_high_watermark(effect.offset)
                self._deliver()
            case StopLeading():
                log.info("this node no longer leads the metadata quorum (epoch %d)", effect.epoch)
                self._appended.clear()
                self._tell_leader(LeaderAndEpoch(NO_LEADER, effect.epoch))
            case _:
                assert_never(effect)

    def _persist(self, election: ElectionState) -> None:
        """Write the election state; the executor does so in order."""
        write = partial(
            self.log.write_election, election, self.settings.kraft_version, self.machine.voters
        )
        self._persisting += 1
        self._executor.submit(write, partial(self._persisted, election), Pool.METADATA)

    def _persisted(self, election: ElectionState, error: BaseException | None) -> None:
        self._persisting -= 1
        if error is not None:
            self._fail(self._failure_of(error))
        elif self.failure is None:
            self._step(ElectionPersisted(election))

    def _become_leader(self, effect: BecomeLeader) -> None:
        """Begin the epoch with its control records.

        The voters are written too, if this node's endpoints have changed, or if the log has only
        the ones of a snapshot made by formatting.
        """
        messages = [
            leader_change(self.machine.local.id, self.machine.voters, effect.granting),
            *self._changed_voters(),
        ]
        try:
            self.log.on_leader_epoch(effect.epoch)
            self.log.append_control(messages, effect.epoch, self._clock.now_ms())
        except (DiskFull, LogDirectoryOffline) as error:
            self._fail(error)
            return
        log.info("this node leads the metadata quorum (epoch %d)", effect.epoch)
        self._schedule_flush()

    def _changed_voters(self) -> list[ControlMessage]:
        if self.settings.kraft_version == KRAFT_VERSION_STATIC:
            return []
        voters = self.machine.voters
        known = voters.voters[self._local.key.id]
        if known == self._local and self.settings.voters_offset >= 0:
            return []
        changed = voters_messages(voters.with_voter(self._local))
        for kind, message in changed:
            self.settings.replay(kind, message, self.log.end_offset)
        return changed

    # -- syncs ----------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        if self._flush is None and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._begin_flush)

    def _begin_flush(self) -> None:
        self._is_flush_scheduled = False
        end_offset = self.log.end_offset
        try:
            work = self.log.flush_work()
        except (DiskFull, LogDirectoryOffline) as error:
            self._fail(error)
            return
        if work is None:
            self._step(LogFlushed(end_offset))
            return
        self._flush = call(self._executor, work.run, Pool.METADATA)
        self._flush.add_done_callback(lambda done: self._flushed(done, work, end_offset))

    def _flushed(self, done: asyncio.Future[None], work: FlushWork, end_offset: int) -> None:
        self._flush = None
        self.flushes += 1
        error = done.exception()
        if error is not None:
            self._fail(self._failure_of(error))
            return
        work.complete()
        self._step(LogFlushed(end_offset))
        if self.log.end_offset > end_offset:
            self._schedule_flush()

    def _failure_of(self, error: BaseException) -> Exception:
        failure = self.log.failed(error) if isinstance(error, OSError) else error
        assert isinstance(failure, Exception)
        return failure

    def _fail(self, failure: Exception) -> None:
        """Stop leading: appended records may be lost, and the next sync would not report it."""
        if self.failure is None:
            self.failure = failure
            log.error("the metadata log cannot be written or applied any more: %s", failure)
            self._step(Resign())
            self._tell_leader(LeaderAndEpoch(NO_LEADER, self.machine.epoch))
            self._on_failure(failure)

    # -- snapshots ------------------------------------------------------------------------------

    async def create_snapshot(
        self, snapshot_id: SnapshotId, values: Iterable[bytes], last_append_ms: int
    ) -> None:
        """Write a snapshot, then delete old snapshots and segments beyond the retention limits.

        `values` are the records before the snapshot's offset, iterated over in another thread.

        Raises:
            OSError, LogDirectoryOffline: the disk is full or failed; the log is unchanged.
        """
        batches = snapshot_batches(
            snapshot_id.epoch,
            last_append_ms,
            self.settings.messages(),
            values,
            self._clock.now_ms(),
        )
        write = partial(self.log.write_snapshot, snapshot_id, batches)
        await call(self._executor, write, Pool.SNAPSHOT)
        self.log.add_snapshot(snapshot_id)
        self.log.clean(
            self._clock.now_ms(),
            self._config.metadata_max_retention_bytes,
            self._config.metadata_max_retention_ms,
        )

    # -- listeners ------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Deliver committed records to listeners, at most `DELIVERED_BYTES` of the log in this
        turn."""
        self._is_delivery_scheduled = False
        if self.failure is not None:
            return
        try:
            if self._delivered < 0:
                self._deliver_snapshot()
            batches = self._next_batches()
            if batches:
                self._delivered = batches[-1].next_offset
                for listener in self._listeners:
                    listener.handle_commit(batches)
            role = self.machine.role
            if isinstance(role, Leader) and self._delivered > role.start_offset:
                self._tell_leader(LeaderAndEpoch(self._local.key.id, role.epoch))
        except Exception as error:
            log.exception("the committed metadata cannot be applied")
            self._fail(self._failure_of(error))
            return
        if self._delivered < self.high_watermark and not self._is_delivery_scheduled:
            self._is_delivery_scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver_snapshot(self) -> None:
        self._delivered = self.log.start_offset
        latest = self.log.latest_snapshot
        if latest is not None:
            self._delivered = latest.offset
            values = self.log.read_snapshot(latest).values
            for listener in self._listeners:
                listener.handle_load_snapshot(latest, map(decode_record, values))

    def _next_batches(self) -> list[CommittedBatch]:
        batches: list[CommittedBatch] = []
        end = self.high_watermark
        appended = self._appended
        if appended and appended[0].base_offset == self._delivered:
            while appended and appended[0].next_offset <= end:
                batches.append(appended.popleft())
            return batches
        size = 0
        stop = min(end, appended[0].base_offset) if appended else end
        for batch in self.log.batches(self._delivered):
            if batch.base_offset >= stop or size >= DELIVERED_BYTES:
                break
            batches.append(_committed(batch))
            size += batches[-1].size
        return batches

    def _tell_leader(self, leader: LeaderAndEpoch) -> None:
        if leader != self._leader:
            self._leader = leader
            for listener in self._listeners:
                listener.handle_leader_change(leader)


def _committed(batch: RecordBatch) -> CommittedBatch:
    records: list[Message] = []
    if not batch.is_control:
        records = [decode_record(each.value or b"") for each in iterate_records(batch)]
    return CommittedBatch(
        batch.base_offset,
        batch.next_offset,
        batch.leader_epoch,
        batch.max_timestamp,
        batch.size,
        records,
    )
