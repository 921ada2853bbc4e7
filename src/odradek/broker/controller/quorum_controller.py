"""The controller: processes requests while this node leads the metadata quorum.

The controller is a listener of the raft client. It is registered after the node's metadata loader.
A standby controller has no state, because the loader reads the committed log. When this node
becomes the leader, the controller copies the loader's state and becomes active. The copy is the
in-memory state, which also contains records that are not committed yet.

An active controller processes one request after the other (`submit`). A decision is based on the
in-memory state, which contains all previous decisions. The records of the decision are appended to
the log and immediately replayed into the in-memory state. The response is sent when the records are
committed. At this time the loader has already published the records. When all records are
committed, the controller replaces the in-memory state by a new copy of the loader's state. At this
point the two states are equal. The copy shares the loader's image.

If this node stops leading, the in-memory state is dropped, and all waiting requests get the error
NOT_CONTROLLER. The published image is kept. If the disk is full, a decision whose records cannot be
written is rejected. A later decision is accepted if its records fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.broker.context import RequestContext
from odradek.broker.controller.quorum_description import describe_quorum
from odradek.broker.metadata.dynamic_config import DynamicConfig
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.metadata_log import BatchTooLarge
from odradek.broker.raft.snapshots import SnapshotId
from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.activation import abort_records, bootstrap_records, fence_unreachable
from odradek.core.controller.decisions import DECISIONS
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.record import encode_record
from odradek.env.clock import Clock
from odradek.env.randomness import RandomBytes
from odradek.log.errors import LogDirectoryOffline
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.controller")

DESCRIBE_QUORUM = 55


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
    ) -> None:
        """`bootstrap` are the records from formatting. They are the first records of the log."""
        self._config = DynamicConfig(config)
        self._cluster_id = cluster_id
        self._raft = raft
        self._loader = loader
        self._bootstrap = bootstrap
        self._clock = clock
        self._random_bytes = random_bytes
        self._supported_features = supported_features
        self._speculative: BatchLoader | None = None
        """The in-memory state with all decisions so far; None while this node does not lead."""
        self._waiting: deque[_Waiting] = deque()
        self._activated: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- the raft client ------------------------------------------------------------------------

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Send the responses whose records are committed."""
        end_offset = batches[-1].next_offset
        while self._waiting and self._waiting[0].end_offset <= end_offset:
            future = self._waiting.popleft().future
            if not future.done():
                future.set_result(None)
        if self._speculative is not None and end_offset == self._raft.log.end_offset:
            self._speculative = self._loader.committed_state()

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """Do nothing: the loader has applied the snapshot."""
        assert self._speculative is None, "a leader does not load snapshots"

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Become the active controller, or stop being it.

        Raises:
            MetadataError: the records from formatting lack a record that a new cluster needs.
            DiskFull, ApiError: the first records of the epoch cannot be written.
        """
        if self._raft.is_leader:
            self._activate()
        else:
            self._deactivate()

    def _activate(self) -> None:
        """Become active: write initial records that are missing.

        `wait_active` returns when these records are committed.
        """
        self._speculative = self._loader.committed_state()
        in_transaction = self._speculative.transaction_start_offset >= 0
        if self._speculative.image.features.metadata_version == 0:
            minimum = self._config.base.layers.static.get("min.insync.replicas", "1")
            records = bootstrap_records(self._bootstrap, int(minimum), in_transaction)
            log.info("the metadata log is empty: writing %d records of formatting", len(records))
        else:
            records = abort_records(in_transaction)
        if records:
            self._append(records)
        unreachable = fence_unreachable(self._state(), self._config.base.node_id)
        if unreachable:
            self._append(unreachable)
        if self._raft.log.end_offset <= self._raft.high_watermark:
            self._set_activated(None)
        else:
            self._wait_for_commit().add_done_callback(self._on_activation_committed)

    def _on_activation_committed(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        self._set_activated(done.exception())

    def _set_activated(self, error: BaseException | None) -> None:
        if self._activated.done():
            return
        if error is None:
            self._activated.set_result(None)
        else:
            self._activated.set_exception(error)

    def _deactivate(self) -> None:
        """Drop the in-memory state and fail the waiting requests: uncommitted records may be lost.

        This node no longer leads the quorum.
        """
        self._speculative = None
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
        return self._loader.image if self._speculative is None else self._speculative.image

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._speculative is not None

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""
        return self._raft.settings.kraft_version

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Process a request; return the response when all records that it depends on are committed.

        `context` is the context of the client's request. It is None for a request of this node,
        which uses the newest version of the API.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT (the changes may still be committed later),
                KAFKA_STORAGE_ERROR (the disk is full), or an error of the whole request.
        """
        if self._speculative is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        version = request.VERSION_MAX if context is None else context.api_version
        if request.API_KEY == DESCRIBE_QUORUM:
            return describe_quorum(self._raft, request, version, self._clock.now_ms())
        decision = DECISIONS[request.API_KEY](self._state(), request, version)
        if decision.records:
            self._append(decision.records)
        elif not self._waiting:
            return decision.response
        await _within(self._wait_for_commit(), getattr(request, "timeout_ms", 0))
        return decision.response

    def _state(self) -> ControllerState:
        image = self.image
        return ControllerState(
            image=image,
            config=self._config.of(image),
            cluster_id=self._cluster_id,
            next_offset=self._raft.log.end_offset,
            random_bytes=self._random_bytes,
            supported_features=self._supported_features,
            kraft_version=self._raft.settings.kraft_version,
        )

    def _append(self, records: list[Message]) -> None:
        """Append and replay the records of a decision.

        Raises:
            DiskFull: there is no space for the records; nothing has changed.
            ApiError: the records are too large for one batch, or the log cannot be written.
        """
        speculative = self._speculative
        assert speculative is not None
        level = speculative.image.features.metadata_version
        values = [encode_record(record, level) for record in records]
        epoch = self._raft.leader.epoch
        try:
            base_offset = self._raft.append(epoch, records, values)
        except BatchTooLarge as error:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"the request is too large: {error}"
            ) from error
        except LogDirectoryOffline as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, error.message) from error
        speculative.load(records, base_offset, epoch)
        speculative.flush()

    def _wait_for_commit(self) -> asyncio.Future[None]:
        """Return a future that completes when all current decisions are committed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(self._raft.log.end_offset, future))
        return future


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
