"""Appends that are not the usual case; see `partition_log` for that one.

The order of checks is that of Apache Kafka: size, checksum, the batch's own claims, its records
where the topic cares, segment size, roll, producer state. Only then is anything written, and
only after that is anything changed.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING

from odradek.env.file_system import write_fully
from odradek.log import names, rolling, validation
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DiskFull, LogDirectoryOffline, RecordsRefused
from odradek.log.origin import AppendOrigin
from odradek.log.producer_state import CompletedTransaction, ProducerEntry, ProducerUpdates
from odradek.log.results import AppendInfo
from odradek.log.segment import Segment
from odradek.log.transaction_index import AbortedTransaction, append_aborted, truncate_aborted
from odradek.model.errors import ErrorCode
from odradek.records.batch import BASE_OFFSET, Buffer, RecordBatch, iterate_batches
from odradek.records.errors import CorruptBatch, InvalidRecords

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

BATCH_START = Struct(">qii")
"""Base offset, length, leader epoch: what a leader writes into a batch."""

logger = logging.getLogger("odradek.log")


def append(
    log: PartitionLog,
    records: Buffer,
    leader_epoch: int,
    origin: AppendOrigin,
    verification_guard: int,
    transaction_version: int,
) -> AppendInfo:
    """Append as the leader, whatever the payload is.

    Raises:
        RecordsRefused: nothing was appended.
        DiskFull, LogDirectoryOffline: the disk is full, or failed, now or before.
    """
    check_online(log)
    if origin is AppendOrigin.RAFT_LEADER:
        info = append_given(log, records, leader_epoch, origin)
        if info is None:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, "there is no batch to append")
        return info
    accepted = validation.validate(log, records, origin)
    batch = accepted.batch
    offset = log.log_end_offset
    last_offset = offset + batch.last_offset_delta
    _check_segment_size(log, batch.size)
    segment = rolling.roll_if_due(log, batch.size, batch.max_timestamp, offset, last_offset)
    updates = completed = None
    if batch.has_producer_id:
        duplicate = _find_duplicate(log, batch, origin)
        if duplicate is not None:
            return duplicate
        _check_verified(log, batch, verification_guard)
        updates = ProducerUpdates(log.producer_state(), origin, transaction_version)
        completed = updates.add(batch, offset)
    if leader_epoch != log.leader_epoch:
        log.assign_epoch(leader_epoch, offset)
    data = batch.data
    if data.readonly:
        data = memoryview(bytearray(data))
    BATCH_START.pack_into(data, 0, offset, batch.length, leader_epoch)
    with _noted_abort(log, segment, completed):
        log.write(segment, data, batch.size, offset, last_offset, batch.max_timestamp)
    if updates is not None:
        _apply(log, updates, completed)
    return AppendInfo(offset, last_offset, log.log_start_offset, accepted.log_append_time_ms)


def begin_transaction(log: PartitionLog, entry: ProducerEntry, offset: int) -> None:
    """The first batch of the producer's transaction was written, at the end of the log."""
    log.producer_state().begin(entry, offset)
    if log.first_unstable_offset < 0:
        log.first_unstable_offset = offset


def check_online(log: PartitionLog) -> None:
    """Refuse work on a failed disk.

    Raises:
        LogDirectoryOffline: the log directory has failed before.
    """
    if log.directory.is_offline:
        raise LogDirectoryOffline(f"the log directory of {log.topic_partition} is offline")


def _check_segment_size(log: PartitionLog, size: int) -> None:
    if size > log.config.segment_bytes:
        raise RecordsRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes does not fit into a segment of {log.topic_partition}, "
            f"which may have {log.config.segment_bytes}",
        )


def _find_duplicate(
    log: PartitionLog, batch: RecordBatch, origin: AppendOrigin
) -> AppendInfo | None:
    if origin is not AppendOrigin.CLIENT or log.producers is None:
        return None
    entry = log.producers.entries.get(batch.producer_id)
    known = None if entry is None else entry.find_duplicate(batch)
    if known is None:
        return None
    return AppendInfo(
        known.first_offset, known.last_offset, log.log_start_offset, known.timestamp, True
    )


def _check_verified(log: PartitionLog, batch: RecordBatch, guard: int) -> None:
    """The coordinator has to know of a transaction before its first batch is written."""
    state = log.producer_state()
    if not batch.is_transactional or state.has_ongoing(batch.producer_id, batch.producer_epoch):
        return
    entry = state.entries.get(batch.producer_id)
    if entry is not None and batch.producer_epoch < entry.epoch:
        raise RecordsRefused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {batch.producer_id} has epoch {batch.producer_epoch}; "
            f"{entry.epoch} was seen",
        )
    if batch.is_control or not log.storage.verify_transactions:
        return
    verification = state.verifications.get(batch.producer_id)
    if guard == 0 or verification is None or verification.guard != guard:
        raise RecordsRefused(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {batch.producer_id} has no open transaction in {log.topic_partition}",
        )


def _apply(
    log: PartitionLog, updates: ProducerUpdates, completed: CompletedTransaction | None
) -> None:
    """The batch was written: bring the producers up to it."""
    state = log.producer_state()
    updates.apply()
    if completed is not None:
        state.complete(completed)
    if state.ongoing or state.unreplicated or log.first_unstable_offset >= 0:
        log.refresh_first_unstable_offset()


@contextmanager
def _noted_abort(
    log: PartitionLog, segment: Segment, completed: CompletedTransaction | None
) -> Iterator[None]:
    """Note an aborted transaction in the index of the segment that gets its marker.

    Before the marker, so that a disk that is full for the index has no marker without an entry.
    An entry without a marker is taken back here, and after a crash by recovery.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    if completed is None or not completed.aborted:
        yield
        return
    entry = AbortedTransaction(
        completed.producer_id,
        completed.first_offset,
        completed.last_offset,
        log.producer_state().last_stable_offset_after(completed),
    )
    file_system = log.storage.file_system
    path = segment.path(names.TRANSACTION_INDEX)
    try:
        append_aborted(file_system, path, entry)
    except OSError as error:
        raise log.refuse("write the transaction index of", error) from error
    try:
        yield
    except DiskFull:
        try:
            truncate_aborted(file_system, path, completed.last_offset)
        except OSError as error:
            raise log.fail("write the transaction index of", error) from error
        raise
    if segment.aborted is not None:
        segment.aborted.append(entry)
    log.is_unsynced = True


def append_given(
    log: PartitionLog, records: Buffer, leader_epoch: int, origin: AppendOrigin
) -> AppendInfo | None:
    """Append batches that have their offsets and leader epochs; None if there are none.

    Raises:
        RecordsRefused: a batch is corrupt or does not continue the log.
        DiskFull, LogDirectoryOffline: the disk is full, or failed, now or before.
    """
    check_online(log)
    first: int | None = None
    last = log.log_end_offset - 1
    try:
        for batch in iterate_batches(records):
            if origin is AppendOrigin.REPLICATION and batch.leader_epoch > leader_epoch:
                logger.info(
                    "%s: left out %r, which is of a later epoch than %d",
                    log.topic_partition,
                    batch,
                    leader_epoch,
                )
                break
            _check_given(log, batch, leader_epoch, origin)
            _append_one_given(log, batch, origin)
            first = batch.base_offset if first is None else first
            last = batch.last_offset
    except CorruptBatch as error:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    except InvalidRecords as error:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error)) from None
    return None if first is None else AppendInfo(first, last, log.log_start_offset)


def _check_given(
    log: PartitionLog, batch: RecordBatch, leader_epoch: int, origin: AppendOrigin
) -> None:
    batch.check()
    if batch.base_offset < log.log_end_offset or batch.last_offset_delta < 0:
        raise RecordsRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{batch} does not continue {log.topic_partition}, which ends at {log.log_end_offset}",
        )
    if origin is AppendOrigin.RAFT_LEADER and batch.leader_epoch != leader_epoch:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"{batch} has to carry the epoch of the leader, {leader_epoch}",
        )
    _check_segment_size(log, batch.size)


def _append_one_given(log: PartitionLog, batch: RecordBatch, origin: AppendOrigin) -> None:
    updates = completed = None
    offset, last_offset = batch.base_offset, batch.last_offset
    if batch.has_producer_id:
        updates = ProducerUpdates(log.producer_state(), origin)
        completed = updates.add(batch, offset)
    if batch.leader_epoch >= 0 and batch.leader_epoch != log.leader_epoch:
        log.assign_epoch(batch.leader_epoch, offset)
    segment = rolling.roll_if_due(log, batch.size, batch.max_timestamp, offset, last_offset)
    with _noted_abort(log, segment, completed):
        log.write(segment, batch.data, batch.size, offset, last_offset, batch.max_timestamp)
    if updates is not None:
        _apply(log, updates, completed)


def take_back_offset(records: Buffer) -> None:
    """The batch was not written: it may be offered again, with the base offset that it came with.

    That is 0 in what producers and coordinators send; others make their batches anew.
    """
    view = memoryview(records)
    if not view.readonly:
        BASE_OFFSET.pack_into(view, 0, 0)


def write_rest(log: PartitionLog, file: OpenFile, records: Buffer, position: int) -> None:
    """A write came back short: write all again, or take back what was written.

    Raises:
        OSError: the device is full and nothing was written, or the device failed.
    """
    file_system = log.storage.file_system
    try:
        write_fully(file_system, file.descriptor, records, position)
    except OSError:
        try:
            file_system.truncate(file.descriptor, position)
        except OSError as error:  # half a batch stays behind, whatever the reason
            raise OSError(errno.EIO, f"half a batch cannot be taken back: {error}") from error
        raise
