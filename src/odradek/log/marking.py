"""The usual end of a transaction: one of a known producer, committed.

Its marker was made by this broker, so only the producer's state has a say; everything else, an
abort with its entry in the transaction index above all, is appended by the book (`appending`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from odradek.log import appending, rolling
from odradek.log.origin import AppendOrigin
from odradek.log.producer_state import CompletedTransaction
from odradek.log.results import AppendInfo
from odradek.records.batch import LOG_OVERHEAD
from odradek.records.control import EndOfTransaction

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

_unpack_producer = Struct(">35xqqh").unpack_from
"""Max timestamp, producer id, producer epoch."""


def append_marker(
    log: PartitionLog,
    batch: bytearray,
    marker: EndOfTransaction,
    leader_epoch: int,
    transaction_version: int,
) -> AppendInfo:
    """Append the marker that ends a producer's transaction.

    `batch` is what `end_of_transaction_batch` makes of `marker`; it is written to.

    Raises:
        RecordsRefused: the producer, or the coordinator, has been fenced.
        DiskFull, LogDirectoryOffline: the disk is full, or failed, now or before.
    """
    timestamp, producer_id, epoch = _unpack_producer(batch)
    state = log.producer_state()
    entry = state.entries.get(producer_id)
    if (
        not marker.committed
        or AppendOrigin.COORDINATOR not in log.in_place
        or leader_epoch != log.leader_epoch
        or entry is None
        or entry.transaction_first_offset < 0
        or epoch < entry.epoch + (transaction_version >= 2)
        or marker.coordinator_epoch < entry.coordinator_epoch
        or producer_id in state.verifications
    ):
        return appending.append(
            log, batch, leader_epoch, AppendOrigin.COORDINATOR, 0, transaction_version
        )
    size = len(batch)
    offset = log.log_end_offset
    segment = rolling.roll_if_due(log, size, timestamp, offset, offset)
    appending.BATCH_START.pack_into(batch, 0, offset, size - LOG_OVERHEAD, leader_epoch)
    log.write(segment, batch, size, offset, offset, timestamp)
    first_offset = entry.end_transaction(epoch, marker.coordinator_epoch, timestamp)
    state.complete(CompletedTransaction(producer_id, first_offset, offset, aborted=False))
    return AppendInfo(offset, offset, log.log_start_offset)
