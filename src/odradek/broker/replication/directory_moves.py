"""Moves replicas between the log directories of a broker (KIP-113).

The batches of a replica are copied into a *future log* in the other directory, `CHUNK_BYTES` at a
time, while clients continue to use the replica. A future log follows the replica's log as a
follower follows its leader: if the replica's log is truncated, the epochs diverge, and the future
log is truncated (`core/replica/divergence`). The end of a move has these steps:

1. When both logs have the same end, the controller assigns the replica to the new directory
   (AssignReplicasToDirs, KIP-858). If the move is cancelled after that, it is assigned to its old
   directory again.
2. The future log is flushed, and what was appended in the meantime is copied.
3. When both logs have the same end again, the future log replaces the replica's log, in one step
   for the event loop (`ReplicaManager.replace_log`). Clients that wait for acknowledgements go on
   to wait.

A restart of the node, clean or not, does not end a move. Future logs that are found at the start
are continued, after a crash from the last flush on. If there is only the future log, and the
replica is assigned to its directory, a crash has interrupted step 3, and the future log becomes the
replica's log (`LogManager.get_or_create`). Apache Kafka does the same with these files
(`ReplicaAlterLogDirsThread`, `LogManager`), so that each of the two can continue a move that the
other has begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto

from odradek.broker.partitions.partition import Partition
from odradek.broker.partitions.replica_manager import ReplicaManager
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
WAIT_SECONDS = 0.1
"""How often moves that wait for the controller copy new records."""
_ANY_EPOCH = 2**31 - 1


class Assignment(Enum):
    """What the controller knows of the new directory of a replica that moves."""

    NONE = auto()
    """The controller was not told."""
    SENT = auto()
    """The controller was told, and has not answered yet."""
    DONE = auto()
    """The controller has assigned the replica to the new directory."""
    NOT_USED = auto()
    """The metadata of the cluster have no directories."""


class Move:
    """A replica that moves. `current` is its log, and `future` the log that replaces it."""

    __slots__ = ("assignment", "current", "future", "partition")

    def __init__(self, partition: Partition, current: PartitionLog, future: PartitionLog) -> None:
        self.partition = partition
        self.current = current
        self.future = future
        self.assignment = Assignment.NONE

    @property
    def is_assigned(self) -> bool:
        """Whether the future log may replace the log, as far as the controller is concerned."""
        return self.assignment in (Assignment.DONE, Assignment.NOT_USED)

    def set_assignment(self, assignment: Assignment) -> None:
        """Set what the controller knows."""
        self.assignment = assignment


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
        self._woken = asyncio.Event()
        """Set when the controller has answered, or the limit has changed."""
        self._is_closed = False

    def update_config(self, config: BrokerConfig) -> None:
        """Apply a changed limit, which is that of all moves together."""
        self._limit = config.replica_alter_log_dirs_io_max_bytes_per_second
        self._woken.set()

    def start(self, partition: Partition, directory: LogDirectory) -> None:
        """Move a replica into a directory. Another move of the replica is cancelled.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full, or a disk has failed.
        """
        name = TopicPartition(partition.topic, partition.index)
        known = self._moves.get(name)
        if known is not None:
            if known.partition is partition and known.future.directory is directory:
                return
            self._cancel(name)
        if partition.log.directory is directory:
            self._replicas.logs.delete_future(name)
            return
        self._add(name, Move(partition, partition.log, self._new_future(name, directory)))
        log.info("%s moves to %s", name, directory.path)

    def _new_future(self, name: TopicPartition, directory: LogDirectory) -> PartitionLog:
        self._replicas.logs.delete_future(name)
        return self._replicas.logs.create_future(name, directory)

    def resume(self, partition: Partition) -> None:
        """Continue a move that was interrupted by a restart of the node."""
        name = TopicPartition(partition.topic, partition.index)
        move = Move(partition, partition.log, self._replicas.logs.futures[name])
        try:
            _drop_unflushed(move.future)
        except ApiError as error:
            log.error("the move of %s does not go on: %s", name, error.message)
            return
        log.info("%s goes on to move to %s", name, move.future.directory.path)
        if self._replicas.is_assigned_to(partition, move.future.directory):
            self._assign(move)
        self._add(name, move)

    def _add(self, name: TopicPartition, move: Move) -> None:
        self._moves[name] = move
        if self._task is None and not self._is_closed:
            self._task = self._loop.create_task(self._run())

    def _cancel(self, name: TopicPartition) -> None:
        move = self._moves.pop(name)
        if move.assignment in (Assignment.SENT, Assignment.DONE):
            self._replicas.undo_assignment(move.partition, move.current.directory)
        try:
            self._replicas.logs.delete_future(name)
        except ApiError as error:
            log.error("the future log of %s could not be deleted: %s", name, error.message)

    async def close(self) -> None:
        """Stop copying. The next start of the node continues the moves."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._moves.clear()

    async def _run(self) -> None:
        try:
            while self._moves:
                is_waiting = True
                for name, move in list(self._moves.items()):
                    if self._moves.get(name) is move:
                        is_waiting &= not await self._go_on(name, move)
                if is_waiting and self._moves:
                    await self._wait(WAIT_SECONDS)
        finally:
            self._task = None

    async def _wait(self, seconds: float) -> None:
        """Wait for some time, or until `_woken` is set."""
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _go_on(self, name: TopicPartition, move: Move) -> bool:
        """Copy a chunk, or finish the move. Return False if there is nothing to do now."""
        if not self._is_current(name, move):
            log.warning("the move of %s to another log directory is cancelled", name)
            self._cancel(name)
            return True
        try:
            if not await self._copy(name, move):
                return True
            if not move.is_assigned:
                self._assign(move)
            if not move.is_assigned or not await self._finish(name, move):
                return False
            log.info("%s is in %s now", name, move.future.directory.path)
        except (ApiError, OSError) as error:
            if isinstance(error, OSError):
                error = move.current.partition_directory.refuse("read", error)
            log.warning("the move of %s waits: %s", name, error.message)
            await asyncio.sleep(RETRY_SECONDS)
        return True

    def _is_current(self, name: TopicPartition, move: Move) -> bool:
        found = self._replicas.by_name.get(name.topic, {}).get(name.partition)
        is_known = self._replicas.logs.futures.get(name) is move.future
        return found is move.partition and found.log is move.current and is_known

    def _assign(self, move: Move) -> None:
        """Let the controller assign the replica to the new directory, unless this was begun."""
        if move.assignment is not Assignment.NONE:
            return

        def assigned() -> None:
            move.set_assignment(Assignment.DONE)
            self._woken.set()

        move.set_assignment(Assignment.SENT)
        if not self._replicas.assign_ahead(move.partition, move.future.directory, assigned):
            move.set_assignment(Assignment.NOT_USED)

    async def _copy(self, name: TopicPartition, move: Move) -> bool:
        """Copy one chunk. Return whether the future log has all batches."""
        pause_ms = self._rate.falls_to_ms(self._now_ms(), self._limit) - self._now_ms()
        if pause_ms > 0:
            await self._wait(pause_ms / 1000)
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
            move.future.high_watermark = move.current.high_watermark
            self._rate.record(self._now_ms(), len(chunk))
        return False

    async def _finish(self, name: TopicPartition, move: Move) -> bool:
        """Flush the future log, and replace the log by it. Return False if there is more to do."""
        flushed: asyncio.Future[ApiError | None] = self._loop.create_future()

        def on_flushed(error: ApiError | None) -> None:
            if not flushed.done():  # else the node stops
                flushed.set_result(error)

        future, current = move.future, move.current
        self._replicas.logs.when_flushed(future, future.log_end_offset, on_flushed)
        error = await flushed
        if error is not None:
            raise error
        if not self._is_current(name, move):
            return False
        read = current.storage.file_system.pread
        for _ in range(LAST_CHUNKS_MAX):
            offset = _aligned(move)
            data = current.read(offset, CHUNK_BYTES, current.log_end_offset)
            if data is None:
                return self._replace(name, move)
            records = data.records
            _append(move, read(records.descriptor, records.length, records.position))
        return False

    def _replace(self, name: TopicPartition, move: Move) -> bool:
        """Replace the log by the future log, which has the same end. Return whether it was possible.

        No flush may be running, because it uses the paths of files. All records that are durable in
        the log must be durable in the future log. If the topic has `flush.messages=1`, the last
        records are flushed here, because new ones would always be there after a flush in another
        thread.
        """
        if move.current.is_flushed_before_ack and move.future.flush_state.is_idle:
            move.future.flush()
        if not _may_replace(move):
            return False
        self._replicas.replace_log(move.partition, is_assigned=move.assignment is Assignment.DONE)
        del self._moves[name]
        return True


def _drop_unflushed(future: PartitionLog) -> None:
    """Truncate a future log after a crash to the records that were flushed.

    After a power loss, the end of a segment may be missing while the next segment exists. Nothing
    shows that the missing records are not merely compacted, and the log still has them.

    Raises:
        LogDamaged, DiskFull, LogDirectoryOffline: the log cannot be truncated.
    """
    if future.recovery_point < future.log_end_offset:
        future.truncate_to(future.recovery_point)


def _may_replace(move: Move) -> bool:
    """Whether the future log, which has all batches of the log, may replace it now.

    Its end is lower if the log has lost its last records in a power loss, but not the offsets. Then
    the move waits for the next records, as in Apache Kafka.
    """
    future, current = move.future, move.current
    return (
        future.log_end_offset == current.log_end_offset
        and future.flush_state.is_idle
        and not current.flush_state.is_truncating
        and future.recovery_point >= current.recovery_point
    )


def _aligned(move: Move) -> int:
    """Truncate the future log where it differs from the log. Return the offset to copy from."""
    current, future = move.current, move.future
    start, end = current.log_start_offset, current.log_end_offset
    if future.log_end_offset < start:
        future.truncate_fully_and_start_at(start)  # its records are deleted in the log
        return start
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
