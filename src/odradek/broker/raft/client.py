"""The raft client: replicates the metadata log with the other voters, and appends to it.

The client performs the effects of the quorum's machine (`odradek.core.raft`). The executor flushes
files: the election state before a vote counts, and the log before records are acknowledged or
committed. Everything else runs on the event loop's thread. One flush covers all appends of an
iteration of the event loop, and all appends during the previous flush. `delivery` delivers
committed records to the listeners, `peers` sends requests to the other voters, and `serve`
processes the requests of other nodes.

If the disk fails, or a listener cannot apply committed records, the client ends: it resigns,
listeners are notified that there is no leader, and `on_failure` is called once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from odradek.broker.raft.configuration import bootstrap_servers, check_voters, raft_settings
from odradek.broker.raft.control import (
    KRAFT_VERSION_STATIC,
    ControlMessage,
    QuorumSettings,
    leader_change,
    voters_messages,
)
from odradek.broker.raft.delivery import Delivery
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch, RaftListener
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.raft.obstacles import Obstacles
from odradek.broker.raft.peers import Peers
from odradek.broker.raft.replicated_log import ReplicatedLog
from odradek.broker.raft.snapshots import Snapshot, SnapshotId, SnapshotPart, snapshot_batches
from odradek.broker.raft.wire_messages import PART_SIZE_MAX
from odradek.config.broker_config import BrokerConfig
from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.events import (
    AppendRecords,
    AppendRefused,
    AppendVoters,
    BecomeLeader,
    CommitUpTo,
    Effect,
    ElectionPersisted,
    Event,
    FollowLeader,
    PersistElection,
    RequestReceived,
    Resign,
    Respond,
    ResponseReceived,
    SendRequest,
    SnapshotWritten,
    StopLeading,
    Truncate,
    UpgradeVersion,
    WriteSnapshot,
)
from odradek.core.raft.leader import Leader, ReplicaProgress
from odradek.core.raft.machine import RaftMachine
from odradek.core.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from odradek.core.raft.roles import Follower, Resigned
from odradek.core.raft.voters import Destination, Voter, VoterSet
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes, system_random_bytes
from odradek.log.errors import DamagedFile, DiskFull, LogDirectoryOffline, RecordsRefused
from odradek.log.flush_state import FlushWork
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.metadata")

OnFailure = Callable[[Exception], None]


class RaftClient:
    """The part of this node in the metadata quorum, with its files and its connections."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        static_voters: VoterSet,
        local: Voter,
        clock: Clock,
        executor: Executor,
        on_failure: OnFailure,
        *,
        random_bytes: RandomBytes = system_random_bytes,
        network: Network | None = None,
        cluster_id: str = "",
        is_alone: bool = True,
    ) -> None:
        """`local` is this node's description for the voters record.

        `static_voters` are the configured voters, for quorums of kraft.version 0. `is_alone`: this
        node must be the only voter. Otherwise `network` is needed.

        Raises:
            QuorumError: this node cannot be part of the quorum of its log.
            DamagedFile: a snapshot or the quorum's state cannot be read.
            LogDirectoryOffline, OSError: the disk failed.
        """
        self._config = config
        self.log = metadata_log
        self._replicated = ReplicatedLog(metadata_log, static_voters)
        bootstrap = bootstrap_servers(config)
        check_voters(local, self.settings.voters, is_alone=is_alone, has_servers=bool(bootstrap))
        self.machine = RaftMachine(
            local,
            self._replicated,
            metadata_log.read_election(),
            raft_settings(config),
            random_bytes,
            bootstrap,
        )
        self._local = local
        self._clock = clock
        self._executor = executor
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self.obstacles = Obstacles(config, cluster_id)
        self.peers = (
            None
            if network is None
            else Peers(network, random_bytes, cluster_id, config, self.obstacles, self._on_response)
        )
        start = LeaderAndEpoch(NO_LEADER, self.machine.epoch)
        self._delivery = Delivery(metadata_log, self.machine, start, self._schedule_delivery)
        self._events: deque[Event | None] = deque()
        """Events that the machine has not processed. None: call only `poll`."""
        self._is_stepping = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._resigned = asyncio.Event()
        """Set when this node has resigned because it stops, and the other voters know this."""
        self._waiting: dict[asyncio.Future[Response], None] = {}
        """The requests of other nodes that have no response yet."""
        self._persisting = 0
        self._flush: asyncio.Future[None] | None = None
        self._is_flush_scheduled = False
        self.failure: Exception | None = None
        self.flushes = 0
        """The number of flushes of the log so far; tests read it."""

    def _on_response(self, request_id: int, response: Response | None) -> None:
        self._step(ResponseReceived(request_id, response))

    def register(self, listener: RaftListener) -> None:
        """Add a listener. All listeners are registered before `start`."""
        self._delivery.register(listener)

    @property
    def settings(self) -> QuorumSettings:
        """kraft.version and the voters as of the end of the log, committed or not."""
        return self._replicated.settings

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader that the listeners know."""
        return self._delivery.leader

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and all records before its epoch are delivered."""
        return self.leader.leader_id == self._local.key.id and self.failure is None

    @property
    def high_watermark(self) -> int:
        """All records below this offset are committed; -1 while unknown."""
        return self.machine.high_watermark

    @property
    def controller(self) -> Destination | None:
        """The address of the quorum's leader, which is the active controller; None if unknown."""
        role = self.machine.role
        if isinstance(role, Follower):
            return role.leader
        if isinstance(role, Leader):  # it may have removed itself from the voters
            endpoint = self._local.endpoints[0]
            return Destination(role.leader_id, endpoint.host, endpoint.port)
        return self.settings.voters.destination(self.machine.leader_id)

    @property
    def is_caught_up(self) -> bool:
        """Whether this node has a leader, or leads, and has delivered all committed records."""
        role, delivered = self.machine.role, self._delivery.end_offset
        if self.high_watermark > delivered:
            return False  # a new leader may report a lower high watermark
        if not isinstance(role, Follower):
            return self.is_leader
        return 0 <= role.leader_high_watermark <= delivered

    def replicas(self) -> list[ReplicaProgress]:
        """The progress of each replica; empty if this node does not lead."""
        role = self.machine.role
        if not isinstance(role, Leader):
            return []
        now_ms = self._clock.monotonic_ms()
        return role.replicas(self.settings.voters, self.log.end_offset, now_ms)

    def start(self) -> None:
        """Join the quorum. Listeners are called from now on."""
        self._is_stepping = True
        self._perform_all(self.machine.start(self._clock.monotonic_ms()))
        self._is_stepping = False
        if self.log.flushed_offset < self.log.end_offset:
            self._schedule_flush()  # a voter fetches when its log is flushed
        self._step(None)

    def append(self, epoch: int, records: Sequence[Message], values: Iterable[bytes]) -> int:
        """Append records as one batch, which is flushed soon; return its first offset.

        `values` are the encoded `records`. `epoch` is the one in which the caller leads.

        Raises:
            BatchTooLarge: the records do not fit into one batch.
            DiskFull: nothing was appended, and this node still leads.
            LogDirectoryOffline: the disk failed; this node no longer leads.
        """
        assert self.is_leader and epoch == self.leader.epoch, "only the leader appends"  # noqa: PT018
        now_ms = self._clock.now_ms()
        try:
            base_offset, size = self.log.append(values, epoch, now_ms)
        except LogDirectoryOffline as error:
            self._fail(error)
            raise
        end = self.log.end_offset
        self._delivery.appended(CommittedBatch(base_offset, end, epoch, now_ms, size, records))
        self._schedule_flush()
        return base_offset

    def upgrade(self) -> None:
        """Append kraft.version 1 and the voters. The machine has no `upgrade_problem`."""
        self._step(UpgradeVersion())

    async def serve(self, request: Request) -> Response:
        """Process a request of another node; return the response, with records for a Fetch.

        Raises:
            ApiError: BROKER_NOT_AVAILABLE, because this node is stopping or has failed.
        """
        if self._is_closed or self.failure is not None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        token: asyncio.Future[Response] = self._loop.create_future()
        self._waiting[token] = None
        token.add_done_callback(self._waiting.pop)
        self._step(RequestReceived(token, request))
        response = await token
        if isinstance(response, FetchSnapshotResponse) and not response.error:
            return await self._with_part(response)
        return response

    async def close(self) -> None:
        """Flush the appended records, notify the other voters, resign, and close the log.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        await self._quiesce()
        self._step(Resign())
        try:
            async with asyncio.timeout(self._config.controller_quorum_request_timeout_ms / 1000):
                await self._resigned.wait()
        except TimeoutError:
            log.info("not all voters know that this node has resigned")
        self.abandon()
        await self._quiesce()
        if not isinstance(self.failure, (DiskFull, LogDirectoryOffline)):
            self.log.close()

    def abandon(self) -> None:
        """Stop without a notification of the other voters. The log is not closed."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self.peers is not None:
            self.peers.close()
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        for token in list(self._waiting):
            if not token.done():
                token.set_exception(ApiError(ErrorCode.BROKER_NOT_AVAILABLE))

    async def _quiesce(self) -> None:
        """Wait until no flush is in progress."""
        while self._flush is not None or self._is_flush_scheduled or self._persisting:
            if self._flush is not None:
                await asyncio.wait([self._flush])
            await asyncio.sleep(0)

    # -- the machine ----------------------------------------------------------------------------

    def _step(self, event: Event | None) -> None:
        """Pass an event to the machine (None: only call `poll`), and perform the effects.

        An event that comes while effects are performed waits until they are done.
        """
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and self.failure is None and not self._is_closed:
                next_event = self._events.popleft()
                now_ms = self._clock.monotonic_ms()
                if next_event is not None:
                    self._perform_all(self.machine.step(now_ms, next_event))
                while effects := self._due(now_ms):
                    self._perform_all(effects)
        except Exception as error:
            log.exception("the metadata quorum cannot go on")
            self._fail(self._failure_of(error))
        finally:
            self._is_stepping = False
        self.log.times.on_role(role := self.machine.role, self._clock.monotonic_ms())
        if self.machine.is_stopping and not (isinstance(role, Resigned) and role.untold):
            self._resigned.set()
        self._set_timer()

    def _due(self, now_ms: int) -> Sequence[Effect]:
        """Return the effects of `poll`; none if a step has failed."""
        return () if self.failure is not None else self.machine.poll(now_ms)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.failure is not None or self._is_closed:
            self._events.clear()
            return
        now_ms = self._clock.monotonic_ms()
        deadline_ms = self.machine.next_deadline_ms(now_ms)
        if deadline_ms is not None:
            delay_s = max(1, deadline_ms - now_ms) / 1000
            self._timer = self._loop.call_later(delay_s, self._step, None)

    def _perform_all(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if self.failure is None:
                try:
                    self._perform(effect)
                except (DiskFull, LogDirectoryOffline) as error:
                    self._fail(error)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PersistElection():
                self._persist(effect.election)
            case SendRequest():
                assert self.peers is not None, "the only voter asks nobody"
                self.peers.send(effect)
            case Respond():
                self._respond(effect)
            case BecomeLeader():
                self._become_leader(effect)
            case StopLeading():
                log.info("this node no longer leads the metadata quorum (epoch %d)", effect.epoch)
                self._delivery.stop_leading()
                self._delivery.tell_leader(LeaderAndEpoch(NO_LEADER, effect.epoch))
            case FollowLeader():
                self._delivery.tell_leader(LeaderAndEpoch(effect.leader_id, effect.epoch))
            case AppendRecords():
                self._append_from_leader(effect)
            case AppendVoters():
                self._append_voters(effect)
            case Truncate():
                self._replicated.truncate_to(effect.offset, self._on_log_changed)
                self._schedule_flush()
            case WriteSnapshot():
                self._write_snapshot_part(effect)
            case CommitUpTo():
                self.log.set_high_watermark(effect.offset)
                self._deliver()
            case _:
                assert_never(effect)

    def _persist(self, election: ElectionState) -> None:
        """Write the election state in the executor. States are written in order."""
        write = partial(
            self.log.write_election, election, self.settings.kraft_version, self.settings.voters
        )
        self._persisting += 1
        self._executor.submit(write, partial(self._persisted, election), Pool.METADATA)

    def _persisted(self, election: ElectionState, error: BaseException | None) -> None:
        self._persisting -= 1
        if error is not None:
            self._fail(self._failure_of(error))
        else:
            self._step(ElectionPersisted(election))

    def _become_leader(self, effect: BecomeLeader) -> None:
        """Begin the epoch with its control records.

        The voters are also written if this node's endpoints have changed, or if the log has only
        the voters of the snapshot from formatting.
        """
        messages = [
            leader_change(self.machine.local.id, self.settings.voters, effect.granting),
            *self._changed_voters(),
        ]
        self.log.on_leader_epoch(effect.epoch)
        self._replicated.append_control(messages, effect.epoch, self._clock.now_ms())
        log.info("this node leads the metadata quorum (epoch %d)", effect.epoch)
        self._schedule_flush()

    def _changed_voters(self) -> list[ControlMessage]:
        if self.settings.kraft_version == KRAFT_VERSION_STATIC:
            return []
        voters = self.settings.voters
        known = voters.voters[self._local.key.id]
        if known == self._local and self.settings.voters_offset >= 0:
            return []
        return voters_messages(voters.with_voter(self._local))

    def _append_voters(self, effect: AppendVoters) -> None:
        """Append the voters as leader, and kraft.version before them if it is raised."""
        version, voters = voters_messages(effect.voters)
        log.info("the voters of the metadata quorum: %s", sorted(effect.voters.voters))
        messages = [version, voters] if effect.is_upgrade else [voters]
        self._replicated.append_control(messages, effect.epoch, self._clock.now_ms())
        self._schedule_flush()

    def _append_from_leader(self, effect: AppendRecords) -> None:
        try:
            self._replicated.append_from_leader(effect.records, effect.epoch)
        except RecordsRefused as error:
            log.error("the leader's records cannot be appended: %s", error)
            self._step(AppendRefused(effect.epoch))
        self._schedule_flush()

    def _on_log_changed(self, error: Exception | None) -> None:
        """Continue after a truncation."""
        if error is not None:
            self._fail(error)
        else:
            self._schedule_flush()

    # -- responses to other nodes ---------------------------------------------------------------

    def _respond(self, effect: Respond) -> None:
        response = effect.response
        if isinstance(response, FetchResponse) and response.read_offset >= 0:
            records = self.log.read(response.read_offset, PART_SIZE_MAX)
            response = replace(response, records=records)
        if not effect.token.done():  # the caller may have been cancelled
            effect.token.set_result(response)

    async def _with_part(self, response: FetchSnapshotResponse) -> Response:
        snapshot_id = SnapshotId(*response.snapshot)
        read = partial(self.log.read_snapshot_part, snapshot_id, response.position, PART_SIZE_MAX)
        try:
            part: SnapshotPart = await call(self._executor, read, Pool.SNAPSHOT)
        except FileNotFoundError:
            return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= response.position < part.size:
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)
        return replace(response, size=part.size, data=part.data)

    def _write_snapshot_part(self, effect: WriteSnapshot) -> None:
        snapshot_id = SnapshotId(*effect.snapshot)
        if effect.is_last:
            self._replicated.begin_install()
        data = bytes(effect.data)
        write = partial(
            self.log.write_snapshot_part, snapshot_id, effect.position, data, effect.is_last
        )
        done = call(self._executor, write, Pool.SNAPSHOT)
        done.add_done_callback(lambda part: self._part_written(part, snapshot_id, effect.is_last))

    def _part_written(
        self, done: asyncio.Future[Snapshot | None], snapshot_id: SnapshotId, is_last: bool
    ) -> None:
        error = done.exception()
        if self.failure is not None or self._is_closed:
            return
        if isinstance(error, DamagedFile):
            log.error("the snapshot from the leader is dropped: %s", error)
            self._replicated.install(snapshot_id, None, self._on_log_changed)
            self._step(SnapshotWritten(snapshot_id, is_usable=False))
            return
        if error is not None:
            self._fail(self._failure_of(error))
            return

        def installed(refusal: Exception | None) -> None:
            if refusal is not None:
                self._fail(refusal)
            else:
                self._step(SnapshotWritten(snapshot_id))

        if not is_last:
            installed(None)
            return
        try:
            self._replicated.install(snapshot_id, done.result(), installed)
        except (DiskFull, LogDirectoryOffline, OSError) as refusal:
            self._fail(self._failure_of(refusal))

    # -- flushes --------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        if self._flush is None and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._begin_flush)

    def _begin_flush(self) -> None:
        self._is_flush_scheduled = False
        if self._is_closed:
            return
        try:
            work = self.log.flush_work()
        except (DiskFull, LogDirectoryOffline) as error:
            self._fail(error)
            return
        if work is not None:
            end_offset = self.log.end_offset
            self._flush = call(self._executor, work.run, Pool.METADATA)
            self._flush.add_done_callback(lambda done: self._flushed(done, work, end_offset))
        self._step(None)

    def _flushed(self, done: asyncio.Future[None], work: FlushWork, end_offset: int) -> None:
        self._flush = None
        self.flushes += 1
        error = done.exception()
        if error is not None:
            self._fail(self._failure_of(error))
            return
        work.complete()
        self._step(None)
        if self.log.end_offset != end_offset or self.log.flushed_offset < end_offset:
            self._schedule_flush()

    def _failure_of(self, error: BaseException) -> Exception:
        failure = self.log.failed(error) if isinstance(error, OSError) else error
        assert isinstance(failure, Exception)
        return failure

    def _fail(self, failure: Exception) -> None:
        """Stop leading: appended records may be lost, and the next flush would not report it."""
        if self.failure is None:
            self.failure = failure
            self._resigned.set()
            log.error("the metadata log cannot be written or applied any more: %s", failure)
            self.machine.step(self._clock.monotonic_ms(), Resign())
            self._delivery.end(self.machine.epoch)
            self._refuse_waiting()
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
            self.settings.messages(snapshot_id.offset),
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
        """Deliver committed records to the listeners."""
        if self.failure is not None or self._is_closed:
            return
        try:
            self._delivery.deliver()
        except Exception as error:
            log.exception("the committed metadata cannot be applied")
            self._fail(self._failure_of(error))

    def _schedule_delivery(self) -> None:
        self._loop.call_soon(self._deliver)
