"""Reads the headers of the batches in a range of a log, for share partitions."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from odradek.core.share.acquisition import FetchedBatch
from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from odradek.records.control import read_end_of_transaction
from odradek.records.errors import CorruptBatch, InvalidRecords

PIECE_BYTES: Final = 16_384
"""Number of bytes per read after a small batch. The headers of several batches are read at once."""
SMALL_BYTES: Final = PIECE_BYTES // 4
"""After a batch of this size or more, only the header of the next one is read."""
_LEGACY: Final = Struct(">qi")
_HEADER: Final = Struct(">qi9xhi16xq")
"""Base offset, length, attributes, last offset delta and producer id."""
_MARKER_BYTES_MAX: Final = 1024


class Extent(NamedTuple):
    """How many batches a share partition needs: enough for `records_max` records that are new.

    Records before `new_from` are in flight already.
    """

    new_from: int
    records_max: int


def fetched_batches(
    files: FileSystem, records: FileRange, extent: Extent | None = None
) -> list[FetchedBatch]:
    """Return the complete batches of the range, or only as many of them as are needed.

    `files` is the file system to read with.

    Raises:
        CorruptBatch: there is no batch where one must be.
        ReadWouldBlock: `files` would have to wait for the device.
        OSError: the device failed.
    """
    found: list[FetchedBatch] = []
    end_offset: int | None = None
    position, end = records.position, records.position + records.length
    data, start, piece = b"", position, HEADER_SIZE
    while end - position > MAGIC_POSITION:
        inner = position - start
        if inner + HEADER_SIZE > len(data):
            data = files.pread(records.descriptor, min(piece, end - position), position)
            start, inner = position, 0
        if inner + MAGIC_POSITION >= len(data):
            break
        base_offset, length = _LEGACY.unpack_from(data, inner)
        size = length + LOG_OVERHEAD
        if size < LEGACY_SIZE_MIN:
            raise CorruptBatch(f"a batch at byte {position} says that it has {size} bytes")
        if size > end - position:
            break
        if data[inner + MAGIC_POSITION] != MAGIC:
            found.append(_legacy(base_offset, size))
        else:
            found.append(_fetched(files, records.descriptor, data, inner, position))
        position += size
        piece = PIECE_BYTES if size < SMALL_BYTES else HEADER_SIZE
        if extent is not None:
            if end_offset is None:  # the log may have no records from `new_from` to the first batch
                end_offset = max(extent.new_from, found[0].base_offset) + extent.records_max
            if found[-1].last_offset >= end_offset:
                break
    return found


def _legacy(offset: int, size: int) -> FetchedBatch:
    """Return a message of format 0 or 1, which has no producer."""
    return FetchedBatch(offset, offset, size, NO_PRODUCER_ID, False, False)


def _fetched(
    files: FileSystem, descriptor: int, data: bytes, inner: int, position: int
) -> FetchedBatch:
    base_offset, length, attributes, delta, producer_id = _HEADER.unpack_from(data, inner)
    size = length + LOG_OVERHEAD
    is_abort_marker = False
    if attributes & CONTROL_FLAG and producer_id >= 0 and size <= _MARKER_BYTES_MAX:
        batch = data[inner : inner + size]
        if len(batch) < size:
            batch = files.pread(descriptor, size, position)
        is_abort_marker = _is_abort_marker(batch)
    return FetchedBatch(
        base_offset,
        base_offset + delta,
        size,
        producer_id,
        bool(attributes & TRANSACTIONAL_FLAG),
        is_abort_marker,
    )


def _is_abort_marker(batch: bytes) -> bool:
    try:
        marker = read_end_of_transaction(RecordBatch(batch))
    except InvalidRecords:
        return False  # another control record
    return marker is not None and not marker.committed


def sliced(
    records: FileRange, batches: list[FetchedBatch], first_offset: int, last_offset: int
) -> FileRange:
    """Return the part of a range from the batch with `first_offset` to the one with `last_offset`.

    `batches` are the batches of the range. One of them must have such offsets.
    """
    position = records.position
    length = 0
    for batch in batches:
        if batch.last_offset < first_offset and length == 0:
            position += batch.size
        elif batch.base_offset <= last_offset:
            length += batch.size
        else:
            break
    return FileRange(records.descriptor, position, length, records.owner)
