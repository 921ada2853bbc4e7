"""Moves replicas between the log directories of a broker (KIP-113).

The batches of a replica are copied into a *future log* in the other directory, `CHUNK_BYTES` at a
time, while clients continue to use the replica. A future log follows the replica's log as a
follower follows its leader: if the replica's log is truncated, the epochs diverge, and the future
log is truncated (`core/replica/divergence`). When both logs have the same end, the future log is
flushed and replaces the replica's log (`ReplicaManager.replace_log`).

In Apache Kafka, `ReplicaAlterLogDirsThread` does this. Here moves do not survive a restart of the
node: at the start, future logs are removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.partition import Partition
from odradek.broker.replica_manager import ReplicaManager
from odradek.config.broker_config import BrokerConfig
from odradek.core.replica.divergence import diverging_epoch, truncation_offset
from odradek.core.replica.throttle import ByteRate
from odradek.env.executor import Executor, Pool, call
from odradek.log import LogDirectory, PartitionLog
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger("odradek.replicas")

CHUNK_BYTES = 1 << 20
LAST_CHUNKS_MAX = 4
"""The number of chunks that the event loop copies at once before a future log replaces a log."""
RETRY_SECONDS = 1.0
"""Pause of all moves after one of them has failed temporarily, for example on a full disk."""
_ANY_EPOCH = 2**31 - 1


class Move(NamedTuple):
    """A replica that moves. `current` is its log, and `future` the log that replaces it."""

    partition: Partition
    current: PartitionLog
    future: PartitionLog


class DirectoryMoves:
    """All moves of a broker. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._executor = executor
        self._loop = loop
        self._now_ms = now_ms
        self._rate = ByteRate(
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        """The copied bytes."""
        self._limit = config.replica_alter_log_dirs_io_max_bytes_per_second
        self._moves: dict[TopicPartition, Move] = {}
        self._task: asyncio.Task[None] | None = None

    def update_config(self, config: BrokerConfig) -> None:
        """Apply a changed limit, which is that of all moves together."""
        self._limit = config.replica_alter_log_dirs_io_max_bytes_per_second

    def start(self, partition: Partition, directory: LogDirectory) -> None:
        """Move a replica into a directory. Another move of the replica is cancelled.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        name = TopicPartition(partition.topic, partition.index)
        known = self._moves.get(name)
        if known is not None:
            if known.partition is partition and known.future.directory is directory:
                return
            self._cancel(name)
        if partition.log.directory is directory:
            return
        future = self._replicas.logs.create_future(name, directory)
        self._moves[name] = Move(partition, partition.log, future)
        log.info("%s moves to %s", name, directory.path)
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    def _cancel(self, name: TopicPartition) -> None:
        del self._moves[name]
        try:
            self._replicas.logs.delete_future(name)
        except ApiError as error:
            log.error("the future log of %s could not be deleted: %s", name, error.message)

    async def close(self) -> None:
        """Cancel all moves."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for name in list(self._moves):
            self._cancel(name)

    async def _run(self) -> None:
        try:
            while self._moves:
                for name, move in list(self._moves.items()):
                    if self._moves.get(name) is move:
                        await self._go_on(name, move)
        finally:
            self._task = None

    async def _go_on(self, name: TopicPartition, move: Move) -> None:
        """Copy a chunk, or finish the move."""
        if not self._is_current(name, move):
            log.warning("the move of %s to another log directory is cancelled", name)
            self._cancel(name)
            return
        try:
            if await self._copy(name, move) and await self._finish(name, move):
                log.info("%s is in %s now", name, move.future.directory.path)
        except (ApiError, OSError) as error:
            if isinstance(error, OSError):
                error = move.current.partition_directory.refuse("read", error)
            log.warning("the move of %s waits: %s", name, error.message)
            await asyncio.sleep(RETRY_SECONDS)

    def _is_current(self, name: TopicPartition, move: Move) -> bool:
        found = self._replicas.by_name.get(name.topic, {}).get(name.partition)
        is_known = self._replicas.logs.futures.get(name) is move.future
        return found is move.partition and found.log is move.current and is_known

    async def _copy(self, name: TopicPartition, move: Move) -> bool:
        """Copy one chunk. Return whether the future log has all batches."""
        pause_ms = self._rate.falls_to_ms(self._now_ms(), self._limit) - self._now_ms()
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1000)
            return False
        offset = _aligned(move)
        data = move.current.read(offset, CHUNK_BYTES, move.current.log_end_offset)
        if data is None:
            return True
        records = data.records
        read = move.current.storage.file_system.pread
        chunk = await call(
            self._executor,
            lambda: read(records.descriptor, records.length, records.position),
            Pool.DISK,
        )
        if self._is_current(name, move) and _aligned(move) == offset:
            _append(move, chunk)
            self._rate.record(self._now_ms(), len(chunk))
        return False

    async def _finish(self, name: TopicPartition, move: Move) -> bool:
        """Flush the future log, and replace the log by it. Return False if there is more to copy."""
        flushed: asyncio.Future[ApiError | None] = self._loop.create_future()

        def on_flushed(error: ApiError | None) -> None:
            if not flushed.done():  # else the node stops
                flushed.set_result(error)

        future = move.future
        self._replicas.logs.when_flushed(future, future.log_end_offset, on_flushed)
        error = await flushed
        if error is not None:
            raise error
        if not self._is_current(name, move):
            return False
        read = move.current.storage.file_system.pread
        for _ in range(LAST_CHUNKS_MAX):
            offset = _aligned(move)
            data = move.current.read(offset, CHUNK_BYTES, move.current.log_end_offset)
            if data is None:
                del self._moves[name]
                self._replicas.replace_log(move.partition)
                return True
            records = data.records
            _append(move, read(records.descriptor, records.length, records.position))
        return False


def _aligned(move: Move) -> int:
    """Truncate the future log where it differs from the log. Return the offset to copy from."""
    current, future = move.current, move.future
    start, end = current.log_start_offset, current.log_end_offset
    if not future.size:
        if start == end and future.log_end_offset != end:
            future.truncate_fully_and_start_at(end)
        return max(start, future.log_end_offset) if future.log_end_offset <= end else start
    if future.leader_epoch >= 0:
        try:
            diverging = diverging_epoch(current, future.leader_epoch, future.log_end_offset)
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            future.truncate_fully_and_start_at(start)  # it ends before the log begins
            return start
        if diverging is not None:
            future.truncate_to(truncation_offset(future, *diverging))
    elif future.log_end_offset > end:
        future.truncate_to(end)
    return max(start, future.log_end_offset)


def _append(move: Move, chunk: bytes) -> None:
    """Append the complete batches of a chunk, or remove all records to copy the log again.

    The log is copied again if the first batch of the chunk begins before the end of the future log.
    This happens if the log was truncated to an offset below its present log start offset and then
    written again. The leader epochs do not show this, because they begin at the log start offset.
    """
    future = move.future
    base_offset, end_offset = int.from_bytes(chunk[:8], "big"), future.log_end_offset
    if future.size and base_offset < end_offset:
        future.truncate_fully_and_start_at(move.current.log_start_offset)
        return
    if not future.size and base_offset != end_offset:
        future.truncate_fully_and_start_at(base_offset)
    future.append_as_follower(chunk, _ANY_EPOCH)
