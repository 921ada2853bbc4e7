"""The controller: processes requests while this node leads the metadata quorum.

The controller is a listener of the raft client. It is registered after the node's metadata loader.
A standby controller has no state, because the loader reads the committed log. When this node
becomes the leader, the controller creates a `ControllerMachine` with a copy of the loader's state,
and becomes active.

An active controller processes one request after the other (`submit`). A decision is based on the
machine's state, which contains all previous decisions. The records of the decision are appended to
the log and immediately replayed into the machine. The response is sent when the records are
committed. At this time the loader has already published the records. When all records are
committed, the machine continues with a new copy of the loader's state. At this point the two states
are equal. The copy shares the loader's image.

A timer wakes the controller for the machine's next deadline, for example if a broker sends no
heartbeats. Its decisions are processed in the same way, one in each iteration of the event loop.

If this node stops leading, the machine is dropped, and all waiting requests get the error
NOT_CONTROLLER. So decisions whose records are not committed are forgotten. If such records are
committed by the next leader, the loader reads them from the log. The image that the loader has
published stays valid, because it contains only committed records. If the disk is full, a decision
whose records cannot be written is rejected. A later decision is accepted if its records fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.broker.access.authorizer import Authorizer
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.authorization import Guard
from odradek.broker.controller.quorum_description import describe_quorum
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.metadata_log import BatchTooLarge
from odradek.broker.raft.quorum_requests import QuorumRequests
from odradek.broker.raft.snapshots import SnapshotId
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.activation import abort_records, bootstrap_records
from odradek.core.controller.machine import ControllerMachine, Moment, batches
from odradek.core.controller.periodic import Intervals
from odradek.core.controller.state import Decision
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.record import encode_record
from odradek.env.clock import Clock
from odradek.env.randomness import RandomBytes
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.telemetry.request_metrics import Distribution
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.controller")

VOTER_CHANGES = frozenset((api_keys.ADD_RAFT_VOTER, api_keys.REMOVE_RAFT_VOTER))
"""What the quorum decides."""


class _Waiting(NamedTuple):
    """A request whose response waits until all offsets below `end_offset` are committed."""

    end_offset: int
    future: asyncio.Future[None]


class QuorumController:
    """A `RaftListener` that processes requests. Use it only on the event loop's thread."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        cluster_id: str,
        raft: RaftClient,
        loader: MetadataLoader,
        bootstrap: Sequence[Message],
        clock: Clock,
        random_bytes: RandomBytes,
        supported_features: Mapping[str, tuple[int, int]],
        authorizer: Authorizer | None = None,
        quotas: QuotaManagers | None = None,
    ) -> None:
        """`bootstrap` are the records from formatting. They are the first records of the log."""
        self._config = DynamicConfig(config)
        self._cluster_id = cluster_id
        self._raft = raft
        self._quorum_requests = QuorumRequests(raft, cluster_id)
        self._loader = loader
        self._bootstrap = bootstrap
        self._clock = clock
        self._random_bytes = random_bytes
        self._supported_features = supported_features
        self._authorizer = authorizer
        self._quotas = quotas
        self._machine: ControllerMachine | None = None
        """The state with all decisions so far; None while this node does not lead."""
        self._epoch = -1
        """The epoch in which `_machine` is active."""
        self._waiting: deque[_Waiting] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        """The time for which `_timer` is set."""
        self.times = Distribution()
        """The µs of processing requests and periodic work (a metric)."""
        self.timed_out = 0
        """Number of requests whose records were not committed in time."""
        self.elections = 0
        """How often a node became the active controller."""
        self._activated: asyncio.Future[None] = self._loop.create_future()

    # -- the raft client ------------------------------------------------------------------------

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Send the responses whose records are committed."""
        machine = self._machine
        if machine is None:
            return
        # Only the offsets of this epoch's records complete the requests of this epoch.
        assert batches[-1].epoch <= self._epoch, "a new leader is announced before its records"
        end_offset = batches[-1].next_offset
        while self._waiting and self._waiting[0].end_offset <= end_offset:
            future = self._waiting.popleft().future
            if not future.done():
                future.set_result(None)
        if end_offset == self._raft.log.end_offset:
            machine.share(self._loader.committed_state())

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """Do nothing: the loader has applied the snapshot."""
        assert self._machine is None, "a leader does not load snapshots"

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Become the active controller, or stop being the active controller.

        Raises:
            MetadataError: the records from formatting lack a record that a new cluster needs.
            DiskFull, ApiError: the first records of the epoch cannot be written.
        """
        # This node may lead again in a later epoch. Then records of the earlier one may be lost.
        self._deactivate()
        if leader.leader_id >= 0:
            self.elections += 1
        if self._raft.is_leader:
            self._activate(leader.epoch)

    def _activate(self, epoch: int) -> None:
        """Become active: write initial records that are missing.

        `wait_active` returns when these records are committed.
        """
        config = self._config.base
        machine = self._machine = ControllerMachine(
            self._loader.committed_state(),
            _intervals(config),
            self._clock.monotonic_ms(),
            cluster_id=self._cluster_id,
            random_bytes=self._random_bytes,
            supported_features=self._supported_features,
            token_secret=config.delegation_token_secret_key,
        )
        self._epoch = epoch
        if machine.image.features.metadata_version == 0:
            minimum = config.layers.static.get("min.insync.replicas", "1")
            records = bootstrap_records(self._bootstrap, int(minimum), machine.in_transaction)
            log.info("the metadata log is empty: writing %d records of formatting", len(records))
        else:
            records = abort_records(machine.in_transaction)
        if records:
            self._append(records)
        self._set_timer()
        if self._raft.log.end_offset <= self._raft.high_watermark:
            self._set_activated(None)
        else:
            self._wait_for_commit().add_done_callback(self._on_activation_committed)

    def _on_activation_committed(self, done: asyncio.Future[None]) -> None:
        # If another node has become the leader, this node may become the leader later.
        if not done.cancelled() and done.exception() is None:
            self._set_activated(None)

    def _set_activated(self, error: BaseException | None) -> None:
        if self._activated.done():
            return
        if error is None:
            self._activated.set_result(None)
        else:
            self._activated.set_exception(error)

    def _deactivate(self) -> None:
        """Drop the machine and fail the waiting requests: uncommitted records may be lost.

        This node no longer leads the quorum.
        """
        self._machine = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        failure = self._raft.failure
        problem = None if failure is None else f"the metadata log failed: {failure}"
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.future.done():
                each.future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, problem))
        if failure is not None:
            self._set_activated(failure)

    async def wait_active(self) -> None:
        """Wait until this node is the active controller for the first time.

        Raises:
            Exception: the raft client has failed. The exception is the client's failure.
        """
        await asyncio.shield(self._activated)

    # -- decisions ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image. On the active controller it also contains uncommitted decisions."""
        return self._loader.image if self._machine is None else self._machine.image

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._machine is not None

    @property
    def epoch(self) -> int:
        """The newest epoch in which this node became the active controller; -1 before."""
        return self._epoch

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""
        return self._raft.settings.kraft_version

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Process a request; return the response when all records that it depends on are committed.

        `context` is the context of the client's request. It is None for a request of this node,
        which uses the newest version of the API, and which is not checked by the authorizer.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT (the changes may still be committed later),
                KAFKA_STORAGE_ERROR (the disk is full), or an error of the whole request.
        """
        machine = self._machine
        if machine is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if context is None or self._authorizer is None:
            return await self._process(machine, context, request)
        image = machine.image
        guard = Guard(self._authorizer, context, image, self._config.of(image))
        allowed, complete = guard.check(request)
        response = await self._process(machine, context, allowed)
        complete(response)
        return response

    async def _process(
        self, machine: ControllerMachine, context: RequestContext | None, request: Any
    ) -> Any:
        version = request.VERSION_MAX if context is None else context.api_version
        if request.API_KEY == api_keys.DESCRIBE_QUORUM:
            return describe_quorum(self._raft, request, version, self._clock.now_ms())
        if request.API_KEY in VOTER_CHANGES:
            return await self._quorum_requests.answer(request)
        if context is None and request.API_KEY == api_keys.BROKER_REGISTRATION:
            # This process has locked the log directories, so the previous incarnation of its broker
            # has stopped.
            machine.end_session(request.broker_id)
        moment = self._moment("" if context is None else context.principal)
        quota = None
        if context is not None and self._quotas is not None:
            quota = self._quotas.mutation_quota(context)
            if quota is not None:
                moment = moment._replace(count_partitions=quota.record)
        if request.API_KEY == api_keys.UPDATE_FEATURES:
            problem = self._raft.machine.upgrade_problem()
            moment = moment._replace(kraft_upgrade_problem=problem)
        began_ns = self._clock.monotonic_ns()
        decision = machine.decide(moment, request, version)
        if decision.raises_kraft_version:
            self._raft.upgrade()
        self._append_decision(decision)
        self._set_timer()
        self.times.add((self._clock.monotonic_ns() - began_ns) // 1000)
        if decision.records or self._waiting:
            try:
                await _within(self._wait_for_commit(), getattr(request, "timeout_ms", 0))
            except ApiError as error:
                self.timed_out += error.code is ErrorCode.REQUEST_TIMED_OUT
                raise
        if quota is not None:
            decision.response.throttle_time_ms = quota.finish(self._clock.monotonic_ms())
        return decision.response

    def _moment(self, requester: str = "") -> Moment:
        return Moment(
            now_ms=self._clock.monotonic_ms(),
            wall_ms=self._clock.now_ms(),
            next_offset=self._raft.log.end_offset,
            config=self._config.of(self.image),
            kraft_version=self._raft.settings.kraft_version,
            voter_count=len(self._raft.settings.voters),
            requester=requester,
        )

    def _append_decision(self, decision: Decision[Any]) -> None:
        """Append the records of a decision.

        Raises:
            DiskFull, ApiError: a batch cannot be written (see `_append`). Earlier batches of the
                decision have been appended.
        """
        machine = self._machine
        assert machine is not None
        for batch in batches(decision):
            self._append(batch, is_atomic=decision.is_atomic)
        machine.decided(decision, self._raft.log.end_offset)

    def _append(self, records: list[Message], is_atomic: bool = True) -> None:
        """Append and replay records as one batch, or as several if they need not be atomic.

        Raises:
            DiskFull: there is no space for the records; nothing has changed.
            ApiError: the records are too large for one batch, or the log cannot be written.
        """
        machine = self._machine
        assert machine is not None
        level = machine.image.features.metadata_version
        values = [encode_record(record, level) for record in records]
        try:
            base_offset = self._raft.append(self._epoch, records, values)
        except BatchTooLarge as error:
            if not is_atomic and len(records) > 1:
                half = len(records) // 2
                self._append(records[:half], is_atomic)
                self._append(records[half:], is_atomic)
                return
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"the request is too large: {error}"
            ) from error
        except LogDirectoryOffline as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, error.message) from error
        machine.replay(records, base_offset, self._epoch, self._clock.monotonic_ms())

    def _wait_for_commit(self) -> asyncio.Future[None]:
        """Return a future that completes when all current decisions are committed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(_Waiting(self._raft.log.end_offset, future))
        return future

    # -- periodic work --------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer for the machine's next deadline, if it is not set for an earlier time.

        If the deadline has moved to a later time, the timer finds nothing to do and is set again.
        So a heartbeat does not change the timer.
        """
        machine = self._machine
        if machine is None:
            return
        moment = self._moment()
        deadline_ms = machine.deadline_ms(moment)
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(0, deadline_ms - moment.now_ms)
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)
        self._timer_ms = deadline_ms

    def _on_timer(self) -> None:
        self._timer = None
        machine = self._machine
        if machine is None:
            return
        began_ns = self._clock.monotonic_ns()
        decision = machine.due(self._moment())
        if decision is not None:
            if decision.response:
                log.info("%s", decision.response)
            try:
                self._append_decision(decision)
            except (DiskFull, ApiError) as error:
                log.error("the controller's periodic work is postponed: %s", error.message)
                machine.postpone(self._clock.monotonic_ms())
        self.times.add((self._clock.monotonic_ns() - began_ns) // 1000)
        self._set_timer()


def _intervals(config: BrokerConfig) -> Intervals:
    rebalance_s = config.leader_imbalance_check_interval_seconds
    return Intervals(
        session_timeout_ms=config.broker_session_timeout_ms,
        rebalance_ms=rebalance_s * 1000 if config.auto_leader_rebalance_enable else None,
        unclean_election_ms=config.unclean_leader_election_interval_ms,
        idle_ms=config.metadata_max_idle_interval_ms or None,
        token_check_ms=config.delegation_token_expiry_check_interval_ms
        if config.delegation_token_secret_key
        else None,
    )


async def _within(future: asyncio.Future[None], timeout_ms: int) -> None:
    """Wait for the future, at most `timeout_ms` milliseconds if that is positive.

    Raises:
        ApiError: REQUEST_TIMED_OUT, or the error of the future.
    """
    if timeout_ms <= 0:
        await future
        return
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await asyncio.shield(future)
    except TimeoutError:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from None
