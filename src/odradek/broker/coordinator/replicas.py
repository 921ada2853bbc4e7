"""Gives the coordinator runtime access to this broker's replicas of a coordinator's topic."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.coordinator.log import Committed, CoordinatorPartition
from odradek.broker.partitions.partition import Partition
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.env.executor import call
from odradek.log.origin import AppendOrigin
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import Buffer


class ReplicaPartition:
    """A `CoordinatorPartition` that reads and writes the log of a replica."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        return self._partition.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._partition.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record."""
        return self._partition.log.high_watermark

    @property
    def commits_at_once(self) -> bool:
        """Whether records are committed when `append` returns."""
        return self._partition.commits_at_once

    @property
    def batch_bytes_max(self) -> int:
        """The topic's `max.message.bytes`."""
        return self._partition.log.config.max_message_bytes

    def append(
        self, batch: bytearray, *, verification_guard: int = 0, transaction_version: int = 0
    ) -> int:
        """Append a batch and return the end offset after it.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log rejects the batch.
        """
        partition = self._partition
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.check_in_sync()
        info = partition.log.append_as_leader(
            batch,
            partition.registration.leader_epoch,
            AppendOrigin.COORDINATOR,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        partition.on_appended(len(batch), info.last_offset + 1 - info.base_offset)
        return info.last_offset + 1

    def append_records(self, timestamp: int, records: Sequence[tuple[bytes, bytes]]) -> int:
        """Append records as a separate, uncompressed batch and return the end offset after it.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log rejects the records.
        """
        partition = self._partition
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.check_in_sync()
        log = partition.log
        size = log.appender.append_own_records(
            timestamp, records, partition.registration.leader_epoch
        )
        partition.on_appended(size, len(records))
        return log.log_end_offset

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset. Followers delete their records with their next fetches.

        Raises:
            ApiError: this broker does not lead the partition, or `offset` is not committed.
        """
        self._partition.check_leader()
        self._partition.log.delete_records_before(offset)

    async def read(self, offset: int, max_bytes: int) -> Buffer:
        """Read complete batches in a thread; the result is empty at the end of the log.

        Raises:
            ApiError: the log cannot be read.
        """
        log = self._partition.log
        data = log.read(offset, max_bytes, log.log_end_offset)
        if data is None:
            return b""
        records = data.records
        storage = log.storage
        return await call(
            storage.executor,
            lambda: storage.file_system.pread(records.descriptor, records.length, records.position),
        )

    def when_committed(self, offset: int, committed: Committed) -> None:
        """See `CoordinatorPartition.when_committed`."""
        self._partition.when_committed(offset, committed)


class ReplicaTopic:
    """A `CoordinatorTopic` that finds its partitions among the replicas of this broker."""

    def __init__(self, replicas: ReplicaManager, topic: str) -> None:
        self._replicas = replicas
        self._topic = topic

    def partition(self, index: int) -> CoordinatorPartition:
        """Return a partition.

        Raises:
            ApiError: this broker does not lead the partition.
        """
        partition = self._replicas.find(self._topic, index)
        partition.check_leader()
        return ReplicaPartition(partition)
