"""Reads the batches of a payload that have their offsets already.

A follower gets such payloads from the leader, and the leader of the metadata log builds them itself.
`GivenAppender` appends the batches that `given_batches` yields.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.log.errors import RecordsRefused
from odradek.log.origin import AppendOrigin
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RECORD_BATCH_HEADER,
    SIZE,
    RecordBatch,
    iterate_batches,
)
from odradek.records.checksum import crc32c

logger = logging.getLogger("odradek.log")

_unpack_header: Final = RECORD_BATCH_HEADER.unpack_from


class GivenBatch(NamedTuple):
    """A batch that has its offsets already and a correct checksum."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def given_batches(
    view: memoryview,
    next_offset: int,
    leader_epoch: int,
    origin: AppendOrigin,
    segment_bytes: int,
    topic_partition: TopicPartition,
) -> Iterator[GivenBatch]:
    """Check and yield the complete batches of the payload.

    Raises:
        RecordsRefused: a batch does not continue the log.
        CorruptBatch: a batch is damaged.
    """
    position, end = 0, len(view)
    while end - position > MAGIC_POSITION:
        size = SIZE.unpack_from(view, position + LENGTH_POSITION)[0] + LOG_OVERHEAD
        if size > end - position:
            return
        if size < HEADER_SIZE or view[position + MAGIC_POSITION] != MAGIC:
            for batch in iterate_batches(view[position:]):
                batch.check()  # this call, or the iteration, raises the error
        (
            base_offset,
            _,
            epoch,
            _,
            crc,
            attributes,
            delta,
            _,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            _,
        ) = _unpack_header(view, position)
        if origin is AppendOrigin.REPLICATION and epoch > leader_epoch:
            logger.info(
                "%s: ignored batches from offset %d on, which are of leader epoch %d, "
                "later than %d",
                topic_partition,
                base_offset,
                epoch,
                leader_epoch,
            )
            return
        if crc32c(view[position + ATTRIBUTES_POSITION : position + size]) != crc:
            RecordBatch(view[position : position + size]).check()
        last_offset = base_offset + delta
        if base_offset < next_offset or delta < 0:
            raise _does_not_continue(base_offset, last_offset, topic_partition, next_offset)
        if origin is AppendOrigin.RAFT_LEADER and epoch != leader_epoch:
            raise _of_another_epoch(epoch, leader_epoch)
        check_segment_size(size, segment_bytes, topic_partition)
        yield GivenBatch(
            position,
            size,
            base_offset,
            last_offset,
            max_timestamp,
            epoch,
            attributes,
            producer_id,
            producer_epoch,
            base_sequence,
        )
        next_offset = last_offset + 1
        position += size


def _does_not_continue(
    base_offset: int, last_offset: int, topic_partition: TopicPartition, next_offset: int
) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"a batch of the offsets {base_offset} to {last_offset} does not continue "
        f"{topic_partition}, which ends at {next_offset}",
    )


def _of_another_epoch(epoch: int, leader_epoch: int) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        f"a batch of leader epoch {epoch} has to carry the leader's, {leader_epoch}",
    )


def check_segment_size(size: int, segment_bytes: int, topic_partition: TopicPartition) -> None:
    """Raise an error if a batch of this size does not fit into a segment.

    Raises:
        RecordsRefused: RECORD_LIST_TOO_LARGE.
    """
    if size > segment_bytes:
        raise RecordsRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes does not fit into a segment of "
            f"{topic_partition}, which may have {segment_bytes}",
        )
