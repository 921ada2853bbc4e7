"""The controller of this node, on its own metadata log.

Start: read the newest snapshot and the log after it, become leader, write what an empty log
lacks. From then on `submit` decides on requests one after the other. A decision is made on the
newest image, which holds all decisions before it, committed or not; its records are appended and
replayed at once, and the sync of the log is left to a thread. When that is done, the change is
published and the answer given, in the order of the decisions. So creating a topic costs one
sync, and many at a time share it.

If the disk is full, what cannot be written is refused, and the next decision may fit. If the log
fails, nothing that waits is answered with success, and every further request gets NOT_CONTROLLER;
what was published stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.broker.controller.quorum_description import describe_quorum
from odradek.broker.controller.snapshotter import Snapshotter
from odradek.broker.metadata.dynamic_config import DynamicConfig
from odradek.broker.metadata.publisher import PublisherChain
from odradek.broker.raft.control import QuorumSettings
from odradek.broker.raft.metadata_log import BatchTooLarge, MetadataLog, replay_settings
from odradek.broker.raft.quorum_node import OnFailure, QuorumNode
from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.activation import abort_records, bootstrap_records, fence_unreachable
from odradek.core.controller.decisions import DECISIONS
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.batch_loader import BatchLoader, Change
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.record import decode_record, encode_record
from odradek.core.raft.machine import QuorumMachine
from odradek.core.raft.voters import Voter, VoterSet
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.record import iterate_records
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.controller")

DESCRIBE_QUORUM = 55


@dataclass(slots=True)
class _Waiting:
    """A change, or only an answer, that waits until all before `end_offset` is committed."""

    end_offset: int
    change: Change | None
    future: asyncio.Future[None] | None
    size: int = 0


class ControllerNode:
    """See the module. Made by `start`; lives on the loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        clock: Clock,
        random_bytes: RandomBytes,
        publishers: PublisherChain,
        supported_features: Mapping[str, tuple[int, int]],
    ) -> None:
        self._config = DynamicConfig(config)
        self._cluster_id = cluster_id
        self._clock = clock
        self._random_bytes = random_bytes
        self._publishers = publishers
        self._supported_features = supported_features
        self._loader = BatchLoader()
        self._waiting: deque[_Waiting] = deque()
        self._quorum: QuorumNode | None = None
        self._snapshotter: Snapshotter | None = None

    @classmethod
    async def start(
        cls,
        *,
        config: BrokerConfig,
        cluster_id: str,
        metadata_log: MetadataLog,
        local_voter: Voter,
        static_voters: VoterSet,
        bootstrap: Sequence[Message],
        clock: Clock,
        random_bytes: RandomBytes,
        executor: Executor,
        publishers: PublisherChain,
        supported_features: Mapping[str, tuple[int, int]],
        on_failure: OnFailure,
    ) -> ControllerNode:
        """Start the controller; when this returns, everything in the log is published.

        `static_voters` are those of the configuration, for quorums of kraft.version 0.
        `bootstrap` are the records that formatting wrote, for an empty log.

        Raises:
            QuorumError: this node cannot lead the quorum of its log.
            MetadataError: the log cannot be understood.
            DamagedFile: a snapshot or the quorum's state cannot be read.
            LogDirectoryOffline: the disk failed.
            OSError: the disk failed.
        """
        self = cls(config, cluster_id, clock, random_bytes, publishers, supported_features)
        try:
            settings = self._read_log(metadata_log, static_voters)
            machine = QuorumMachine(local_voter.key, settings.voters, metadata_log.read_election())
            self._snapshotter = Snapshotter(metadata_log, config, clock, executor)
            quorum = QuorumNode(
                metadata_log,
                machine,
                settings,
                local_voter,
                clock,
                executor,
                self._on_commit,
                lambda failure: self._fail(failure, on_failure),
            )
            self._quorum = quorum
            self._wait(self._loader.flush(), 0)
            quorum.start()
            await self._activate(bootstrap)
        except BaseException:
            await self._abandon(metadata_log)
            raise
        return self

    async def _abandon(self, metadata_log: MetadataLog) -> None:
        """The start failed: let go of everything, and keep the first error."""
        try:
            if self._quorum is None:
                metadata_log.close()
            else:
                await self._quorum.close()
        except (DiskFull, LogDirectoryOffline) as error:
            log.error("could not close the metadata log: %s", error.message)

    # -- start ----------------------------------------------------------------------------------

    def _read_log(self, metadata_log: MetadataLog, static_voters: VoterSet) -> QuorumSettings:
        settings = QuorumSettings(static_voters)
        offset = metadata_log.start_offset
        latest = metadata_log.latest_snapshot
        if latest is not None:
            snapshot = metadata_log.read_snapshot(latest)
            if snapshot.settings.kraft_version > 0:
                settings = snapshot.settings
            records = (decode_record(value) for value in snapshot.values)
            change = self._loader.load_snapshot(records, latest.offset - 1, latest.epoch)
            self._waiting.append(_Waiting(latest.offset, change, None))
            offset = latest.offset
        for batch in metadata_log.batches(offset):
            if batch.is_control:
                replay_settings(settings, batch)
                self._loader.load((), batch.next_offset, batch.leader_epoch)
            else:
                values = (record.value or b"" for record in iterate_records(batch))
                records = (decode_record(value) for value in values)
                self._loader.load(records, batch.base_offset, batch.leader_epoch)
        return settings

    async def _activate(self, bootstrap: Sequence[Message]) -> None:
        """Write what the log lacks, and wait until all of it is committed."""
        in_transaction = self._loader.transaction_start_offset >= 0
        if self._loader.image.features.metadata_version == 0:
            minimum = self._config.base.layers.static.get("min.insync.replicas", "1")
            records = bootstrap_records(bootstrap, int(minimum), in_transaction)
            log.info("the metadata log is empty: writing %d records of formatting", len(records))
        else:
            records = abort_records(in_transaction)
        if records:
            self._append(records, None)
        unreachable = fence_unreachable(self._state(), self._config.base.node_id)
        if unreachable:
            self._append(unreachable, None)
        await self._committed()

    async def _committed(self) -> None:
        """Wait until all that is decided now is committed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert self._quorum is not None
        self._waiting.append(_Waiting(self._quorum.log.end_offset, None, future))
        await future

    # -- decisions ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """With all decisions so far, committed or not."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        """Whether decisions are taken here."""
        return self._quorum is not None and self._quorum.is_leader

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""
        assert self._quorum is not None
        return self._quorum.settings.kraft_version

    @property
    def flushes(self) -> int:
        """Syncs of the log since the start."""
        assert self._quorum is not None
        return self._quorum.flushes

    async def submit(self, request: Any, version: int) -> Any:
        """Decide on a request; the answer comes once all that it rests on is committed.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT (it may be done later all the same),
                KAFKA_STORAGE_ERROR (the disk is full), or an error of the whole request.
        """
        quorum = self._quorum
        if quorum is None or not quorum.is_leader:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if request.API_KEY == DESCRIBE_QUORUM:
            return describe_quorum(quorum, request, version, self._clock.now_ms())
        decision = DECISIONS[request.API_KEY](self._state(), request, version)
        if not decision.records and not self._waiting:
            return decision.response
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if decision.records:
            self._append(decision.records, future)
        else:  # it may rest on what is decided but not committed
            self._waiting.append(_Waiting(quorum.log.end_offset, None, future))
        await _within(future, getattr(request, "timeout_ms", 0))
        return decision.response

    def _state(self) -> ControllerState:
        assert self._quorum is not None
        image = self._loader.image
        return ControllerState(
            image=image,
            config=self._config.of(image),
            cluster_id=self._cluster_id,
            next_offset=self._quorum.log.end_offset,
            random_bytes=self._random_bytes,
            supported_features=self._supported_features,
            kraft_version=self._quorum.settings.kraft_version,
        )

    def _append(self, records: list[Message], future: asyncio.Future[None] | None) -> None:
        """Append and replay a decision.

        Raises:
            DiskFull: there is no room for it; nothing is decided.
            ApiError: it is too large, or the log cannot be written.
        """
        quorum = self._quorum
        assert quorum is not None
        level = self._loader.image.features.metadata_version
        values = [encode_record(record, level) for record in records]
        try:
            base_offset, size = quorum.append(values)
        except BatchTooLarge as error:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"the request is too large: {error}"
            ) from error
        except LogDirectoryOffline as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, error.message) from error
        self._loader.load(records, base_offset, quorum.epoch)
        self._wait(self._loader.flush(), size, future)

    def _wait(
        self, change: Change | None, size: int, future: asyncio.Future[None] | None = None
    ) -> None:
        quorum = self._quorum
        assert quorum is not None
        self._waiting.append(_Waiting(quorum.log.end_offset, change, future, size))

    # -- commits --------------------------------------------------------------------------------

    def _on_commit(self, end_offset: int) -> None:
        """Publish and answer what is committed now, in its order."""
        quorum, snapshotter = self._quorum, self._snapshotter
        assert quorum is not None
        assert snapshotter is not None
        while self._waiting and self._waiting[0].end_offset <= end_offset:
            waiting = self._waiting.popleft()
            if waiting.change is not None:
                self._publishers.publish(*waiting.change)
                snapshotter.on_commit(
                    waiting.change[1],
                    quorum.settings.messages(),
                    waiting.size,
                    self._clock.now_ms(),
                )
            if waiting.future is not None and not waiting.future.done():
                waiting.future.set_result(None)

    def _fail(self, failure: Exception, on_failure: OnFailure) -> None:
        log.error("the metadata log failed, nothing can be changed any more: %s", failure)
        while self._waiting:
            future = self._waiting.popleft().future
            if future is not None and not future.done():
                problem = f"the metadata log failed: {failure}"
                future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, problem))
        on_failure(failure)

    async def close(self) -> None:
        """Commit what is decided, then lead no longer.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        if self._snapshotter is not None:
            await self._snapshotter.close()
        if self._quorum is not None:
            await self._quorum.close()


async def _within(future: asyncio.Future[None], timeout_ms: int) -> None:
    """Wait, at most so long; clients that give no time to wait wait for one sync.

    Raises:
        ApiError: REQUEST_TIMED_OUT, or what the future failed with.
    """
    if timeout_ms <= 0:
        await future
        return
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await asyncio.shield(future)
    except TimeoutError:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from None
