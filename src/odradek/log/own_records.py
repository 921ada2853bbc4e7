"""Records that this node has just made: a coordinator's, all of one time, of no producer.

Nobody need look at them before they are written; what the topic wants done to them besides is
done by the book (`appending`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.log import appending, rolling
from odradek.log.origin import AppendOrigin
from odradek.records.batch import LOG_OVERHEAD
from odradek.records.builder import plain_batch
from odradek.records.compression import Codec

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog


def append_own_records(
    log: PartitionLog, timestamp: int, records: Sequence[tuple[bytes, bytes]], leader_epoch: int
) -> int:
    """Append keys and values as a batch of their own; its size.

    Raises:
        RecordsRefused: the batch is too large.
        DiskFull, LogDirectoryOffline: the disk is full, or failed, now or before.
    """
    batch = plain_batch(timestamp, records)
    size = len(batch)
    if (
        AppendOrigin.COORDINATOR not in log.in_place
        or Codec.NONE not in log.attributes_in_place
        or size > log.size_max
        or leader_epoch != log.leader_epoch
    ):
        appending.append(log, batch, leader_epoch, AppendOrigin.COORDINATOR, 0, 0)
        return size
    offset = log.log_end_offset
    last_offset = offset + len(records) - 1
    segment = log.active
    if segment.size + size > log.roll_size or timestamp > segment.roll_timestamp:
        segment = rolling.roll_if_due(log, size, timestamp, offset, last_offset)
    appending.BATCH_START.pack_into(batch, 0, offset, size - LOG_OVERHEAD, leader_epoch)
    log.write(segment, batch, size, offset, last_offset, timestamp)
    return size
