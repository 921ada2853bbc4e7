"""Reads the times of records for groups that deliver by time (see `core.share.schedule`).

The records of a batch are decoded only if the name of the header is somewhere in the batch, or if
the group has a time to live. The work for one fetch is limited: batches after the limit are left to
the next fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.core.share.acquisition import FetchedBatch
from odradek.core.share.schedule import HEADER, NO_TIME, RecordTime, deliver_at_ms
from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.log.partition_log import PartitionLog
from odradek.records.batch import MAGIC, MAGIC_POSITION, RecordBatch
from odradek.records.compression import Codec, decompress
from odradek.records.errors import CorruptBatch, DecompressionLimit, InvalidRecords
from odradek.records.record import iterate_records

READ_BYTES_MAX: Final = 512 << 10
"""Size of the part of a log that is read at once. A larger batch is read alone."""
RECORDS_MAX: Final = 2_000
"""Number of records whose times are read at once, or those of one batch."""
DECODED_BYTES_MAX: Final = 64 << 20
"""The times of the records of a batch that is larger than this, after decompression, are unknown:
its records are delivered at once."""
_HEADER: Final = HEADER.encode()


class ReadyRecords(NamedTuple):
    """Batches with deferred records that are ready."""

    data: bytes
    """The batches that contain the records, in ascending order."""
    offsets: list[int]
    """The records, as far as the batches fit into the limit."""
    gone: list[int]
    """Records that the log does not have any more."""
    times: list[RecordTime]


def read_times(
    files: FileSystem, records: FileRange, batches: Sequence[FetchedBatch], *, reads_all: bool
) -> tuple[list[FetchedBatch], list[RecordTime]]:
    """Return the first batches of a range, and the times of their records.

    Without `reads_all`, only records with the header have times.

    Raises:
        ReadWouldBlock: `files` would have to wait for the device.
        OSError: the device failed.
    """
    chosen: list[FetchedBatch] = []
    count = size = 0
    for batch in batches:
        if chosen and (count >= RECORDS_MAX or size + batch.size > READ_BYTES_MAX):
            break
        chosen.append(batch)
        count += batch.last_offset - batch.base_offset + 1
        size += batch.size
    data = memoryview(files.pread(records.descriptor, size, records.position))
    times: list[RecordTime] = []
    position = 0
    for batch in chosen:
        times += _times(data[position : position + batch.size], reads_all=reads_all)
        position += batch.size
    return chosen, times


def _times(data: memoryview, *, reads_all: bool) -> Iterator[RecordTime]:
    """Yield the times of the records of one batch, as far as they can be read."""
    if data[MAGIC_POSITION] != MAGIC:
        return  # records in formats 0 and 1 have no headers
    try:
        batch = RecordBatch(data)
        if batch.is_control:
            return
        content: bytes | memoryview = batch.payload
        if batch.codec != Codec.NONE:
            content = decompress(batch.codec, content, DECODED_BYTES_MAX)
        if not reads_all and _HEADER not in bytes(content):
            return
        for record in iterate_records(batch):
            due_ms = deliver_at_ms(record.headers)
            if reads_all or due_ms != NO_TIME:
                yield RecordTime(record.offset, record.timestamp, due_ms)
    except (CorruptBatch, InvalidRecords, DecompressionLimit):
        return  # a client would not understand the batch either, or the batch is too large


def read_ready(
    files: FileSystem,
    log: PartitionLog,
    offsets: Sequence[int],
    limit: int,
    bytes_max: int,
    *,
    with_times: bool,
) -> ReadyRecords:
    """Read the batches that contain these records. The offsets ascend.

    At least one batch is read, also if it is larger than `bytes_max`. Records from the offset
    `limit` on are left out.

    Raises:
        ApiError: the log cannot be read.
        ReadWouldBlock: `files` would have to wait for the device.
        OSError: the device failed.
    """
    found = ReadyRecords(b"", [], [], [])
    parts: list[bytes] = []
    size = 0
    last_offset = -1
    for offset in offsets:
        if offset <= last_offset:
            found.offsets.append(offset)
            continue
        if offset < log.log_start_offset:
            found.gone.append(offset)
            continue
        if offset >= limit:
            break
        data = log.read(offset, 1, limit, True, False, files)
        if data is None:
            break
        records = data.records
        if parts and size + records.length > bytes_max:
            break
        batch = RecordBatch(files.pread(records.descriptor, records.length, records.position))
        if batch.base_offset > offset:  # compaction has removed the record
            found.gone.append(offset)
            continue
        last_offset = batch.last_offset
        found.offsets.append(offset)
        parts.append(bytes(batch.data))
        size += batch.size
        if with_times:
            found.times.extend(_times(batch.data, reads_all=True))
    return found._replace(data=b"".join(parts))
