"""Reads one partition for a Fetch request: checks the request and builds the response."""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.partitions.partition import Partition
from odradek.core.replica.divergence import diverging_epoch
from odradek.core.session.fetch import FetchedPartition
from odradek.env.file_system import FileSystem
from odradek.log.results import FetchData
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    PartitionData,
)

READ_COMMITTED = 1


class Follower(NamedTuple):
    """The broker that fetches as a follower."""

    broker_id: int
    broker_epoch: int
    """-1 before Fetch version 15."""


_UNKNOWN = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""With these errors, Apache Kafka returns no aborted transactions instead of null."""


def failed(index: int, error: ErrorCode) -> PartitionData:
    """Return the response for a partition that cannot be read; offsets are -1."""
    answer = PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")
    if error not in _UNKNOWN:
        answer.aborted_transactions = None
    return answer


def read(
    partition: Partition,
    wanted: FetchedPartition,
    isolation: int,
    max_bytes: int,
    whole_first: bool,
    files: FileSystem | None = None,
) -> PartitionData:
    """Read the data that `wanted` requests. An error is returned as part of the response.

    The replica may be a follower (KIP-392). Its high watermark may be lower than the leader's. The
    request may contain the epoch of the last fetched record. If the logs diverge, the response
    has the diverging epoch and its end offset. If the end of the epoch is unknown, or the fetch
    offset is before the log start offset, the error is OFFSET_OUT_OF_RANGE, as in Apache Kafka.

    `max_bytes` is the remaining size of the whole response. With `whole_first` the first batch is
    complete even if it is larger than `max_bytes` and `wanted.max_bytes` (KIP-74). `files` is the
    file system that searches use.
    """
    index = wanted.key[1]
    try:
        partition.check_epoch(wanted.current_leader_epoch)
    except ApiError as error:
        return failed(index, error.code)
    log = partition.log
    committed = isolation == READ_COMMITTED
    answer = PartitionData(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
    if wanted.last_fetched_epoch >= 0:
        try:
            diverging = diverging_epoch(log, wanted.last_fetched_epoch, wanted.fetch_offset)
        except ApiError as error:
            return failed(index, error.code)
        if diverging is not None:
            epoch, end_offset = diverging
            answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return answer
    limit = answer.last_stable_offset if committed else answer.high_watermark
    try:
        data = log.read(
            wanted.fetch_offset,
            min(wanted.max_bytes, max_bytes),
            limit,
            whole_first,
            committed,
            files,
        )
    except ApiError as error:  # the offset is out of range, the disk failed, or data is corrupt
        return failed(index, error.code)
    if data is not None:
        answer.records = data.records
        if committed:
            answer.aborted_transactions = _aborted(data) if data.aborted_transactions else []
    elif committed:
        answer.aborted_transactions = []
    return answer


def read_from_leader(
    partition: Partition,
    wanted: FetchedPartition,
    isolation: int,
    max_bytes: int,
    whole_first: bool,
    files: FileSystem | None = None,
) -> PartitionData:
    """Read as `read`. If this broker is not the leader, the error is NOT_LEADER_OR_FOLLOWER."""
    try:
        partition.check_leader(wanted.current_leader_epoch)
    except ApiError as error:
        return failed(wanted.key[1], error.code)
    return read(partition, wanted, isolation, max_bytes, whole_first, files)


def nearer_replica(
    partition: Partition, wanted: FetchedPartition, rack: str, listener: str
) -> PartitionData | None:
    """Return a response that names the follower in the consumer's rack, and has no records.

    Return None if the consumer should read here (`PartitionLeader.nearest_follower`).
    """
    leading = partition.leading
    if leading is None:
        return None
    follower = leading.machine.nearest_follower(rack, listener, wanted.fetch_offset)
    if follower < 0:
        return None
    try:
        partition.check_epoch(wanted.current_leader_epoch)
    except ApiError as error:
        return failed(wanted.key[1], error.code)
    log = partition.log
    return PartitionData(
        partition_index=wanted.key[1],
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        preferred_read_replica=follower,
        aborted_transactions=None,
        records=b"",
    )


def read_for_follower(
    partition: Partition,
    wanted: FetchedPartition,
    follower: Follower,
    max_bytes: int,
    whole_first: bool,
    files: FileSystem | None = None,
    *,
    is_first: bool = True,
) -> PartitionData:
    """Read up to the log end offset for a follower. An error is returned as part of the response.

    With `is_first` the request tells the leader which records the follower has. A request that has
    waited tells nothing new. If the follower is throttled, the response has no records.
    """
    index = wanted.key[1]
    try:
        partition.check_leader(wanted.current_leader_epoch)
        leading = partition.leading
        if leading is None:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)  # this broker's metadata are older
        leading.machine.check_follower(follower.broker_id, follower.broker_epoch)
        log, offset = partition.log, wanted.fetch_offset
        answer = PartitionData(partition_index=index, aborted_transactions=None, records=b"")
        if wanted.last_fetched_epoch >= 0:
            diverging = diverging_epoch(log, wanted.last_fetched_epoch, offset)
            if diverging is not None:
                epoch, end_offset = diverging
                answer.high_watermark = log.high_watermark
                answer.log_start_offset = log.log_start_offset
                answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return answer
        limit = min(wanted.max_bytes, max_bytes)
        end = log.log_end_offset
        if leading.throttled_topics and leading.is_throttled(follower.broker_id):
            end = offset
        data = log.read(offset, limit, end, whole_first, False, files)
        if is_first:
            leading.fetched(
                follower.broker_id,
                follower.broker_epoch,
                offset,
                wanted.follower_log_start_offset,
            )
    except ApiError as error:
        code = error.code
        if code is ErrorCode.UNKNOWN_LEADER_EPOCH and wanted.current_leader_epoch < 0:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # whose metadata are older is unknown
        return failed(index, code)
    if data is not None:
        answer.records = data.records
    answer.high_watermark = log.high_watermark
    answer.last_stable_offset = log.last_stable_offset
    answer.log_start_offset = log.log_start_offset
    return answer


def _aborted(data: FetchData) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in data.aborted_transactions
    ]
