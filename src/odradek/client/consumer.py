"""Reads records from assigned partitions, each from its own offset.

`Fetcher` returns whole batches. The consumer decodes and checks the batches. It removes control
records and records before the requested offset. With READ_COMMITTED it also removes records of
aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, OffsetOutOfRangeError
from odradek.client.fetcher import (
    AbortedTransaction,
    Chunk,
    Fetcher,
    FetchLimits,
)
from odradek.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.control import ControlType, control_type
from odradek.records.errors import RecordsError
from odradek.records.record import Record, iterate_records


class Consumer:
    """A consumer without a group.

    `reset_to` (EARLIEST, LATEST or a time in ms) says where reading continues in a partition whose
    offset is out of range. If `reset_to` is None, `poll` raises `OffsetOutOfRangeError`.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
        reset_to: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._reset_to = reset_to
        self._fetcher = Fetcher(cluster, isolation=isolation, limits=limits)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record that `poll` returns, by partition."""
        return self._fetcher.positions

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Assign exactly these partitions, with their first offsets."""
        self._fetcher.drop([each for each in self.positions if each not in positions])
        self._fetcher.seek(positions)

    def assign_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> None:
        """Assign exactly these partitions, starting at EARLIEST, LATEST or a time in ms.

        Raises:
            ClientError: their offsets cannot be fetched.
        """
        self.assign(offsets_at(self._cluster, partitions, time_ms, isolation=self._isolation))

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Set the positions of partitions, which are added to the assignment if needed."""
        self._fetcher.seek(positions)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._fetcher.drop(partitions)

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Return the records that have arrived. If there are none, wait up to `timeout_ms`.

        The list of a partition may be empty. Then the position has moved past records that readers
        must not see.

        Raises:
            OffsetOutOfRangeError: a partition does not hold its position, and `reset_to` is None.
            BrokerError: a batch is corrupt (CORRUPT_MESSAGE), or a broker returned an error.
            ClientError: another permanent error.
        """
        try:
            chunks = self._fetcher.poll(timeout_ms)
        except OffsetOutOfRangeError as error:
            if self._reset_to is None:
                raise
            self._fetcher.seek(
                offsets_at(
                    self._cluster,
                    [error.topic_partition],
                    self._reset_to,
                    isolation=self._isolation,
                )
            )
            return {}
        return {chunk.topic_partition: list(records_of(chunk, self._isolation)) for chunk in chunks}


def records_of(chunk: Chunk, isolation: int = READ_UNCOMMITTED) -> Iterator[Record]:
    """Decode the visible records of a chunk, from its offset on.

    Raises:
        BrokerError: a batch is corrupt (CORRUPT_MESSAGE).
    """
    aborted = chunk.aborted if isolation == READ_COMMITTED else ()
    try:
        for batch in visible_batches(chunk.records, aborted):
            if batch.base_offset >= chunk.offset:
                yield from iterate_records(batch)
            else:
                yield from (r for r in iterate_records(batch) if r.offset >= chunk.offset)
    except RecordsError as error:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, str(error), f"partition {chunk.topic_partition}"
        ) from error


def visible_batches(
    records: memoryview, aborted: Iterable[AbortedTransaction]
) -> Iterator[RecordBatch]:
    """Yield the data batches, except the batches of aborted transactions.

    An aborted transaction begins at the offset that the broker reports and ends at the producer's
    next abort marker.

    Raises:
        RecordsError: a batch is corrupt.
    """
    to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    for batch in iterate_batches(records):
        batch.check()
        while to_come and to_come[-1].first_offset <= batch.last_offset:
            aborting.add(to_come.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and _is_abort_marker(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _is_abort_marker(batch: RecordBatch) -> bool:
    record = next(iterate_records(batch), None)
    return record is not None and control_type(record) == ControlType.ABORT
