"""Selects the batches of a fetch response, or of a piece of a segment file, that a reader needs.

Both have record batches. The last batch may be incomplete, and the first batch may begin before the
requested offset. `scan` reads all headers up to the requested end into a numpy array. `scan` raises
an error for a corrupt batch, and omits empty batches, control batches, aborted batches and batches
outside the requested range. `decompressed` yields the records of the other batches in parts, because
a response of some megabytes may have a gigabyte of records. `positions` finds the records of a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    RECORD_SIZE_MIN,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import decompress
from odradek.records.control import read_end_of_transaction
from odradek.records.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview
Integers = NDArray[np.int64]
Headers = NDArray[np.void]
"""An array of `HEADER`."""

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""A batch's header as a numpy type; `odradek.records.batch` describes the fields."""
STEP = Struct(">qi4xb6xi")
"""The fields of a header that lead to the next one: base offset, length, magic, and last delta."""
PART_BYTES_MAX = 2**31 - 1
"""The maximum size of a part in bytes, because Arrow's offsets have 32 bits."""


class Sections(NamedTuple):
    """Batches: the positions of their records in a buffer, and their base values.

    Each column has one number per batch.
    """

    start: Integers
    end: Integers
    record_count: Integers
    base_offset: Integers
    timestamp: Integers
    """The base of the timestamp deltas. With LogAppendTime it is the timestamp of all records."""
    is_append_time: NDArray[np.bool_]

    def part(self, start: int, stop: int) -> Sections:
        """Return the batches from number `start` to before `stop`."""
        each = slice(start, stop)
        return Sections(
            self.start[each],
            self.end[each],
            self.record_count[each],
            self.base_offset[each],
            self.timestamp[each],
            self.is_append_time[each],
        )

    def repeated(self, column: NDArray[np.generic]) -> Integers:
        """Return a column with the value of each batch, repeated for each record of the batch."""
        return np.repeat(column.astype(np.int64), self.record_count)


class Records(NamedTuple):
    """Records that are not compressed, of some batches."""

    payload: Buffer
    sections: Sections
    """The positions are those in the payload."""


class Scan(NamedTuple):
    """The selected batches of a fetched buffer."""

    buffer: memoryview
    sections: Sections
    """The positions are those in the buffer. The records there may be compressed."""
    codecs: Integers
    """The codec of each selected batch."""
    next_offset: int
    """The offset to fetch next. Earlier records are in the selected batches, or are not needed."""
    headers: Headers
    """The headers of all complete batches that begin before the end, selected or not."""
    size: int
    """The position after these batches."""


class Aborted(Protocol):
    """Decides which batches belong to aborted transactions."""

    def leave_out(self, batch: RecordBatch) -> bool:
        """Return whether a transactional batch, or a control batch, was aborted.

        It is called for all these batches, in log order.
        """


class AbortedTransactions:
    """Finds the batches of aborted transactions, in log order (KIP-98).

    An aborted transaction begins at a known offset and ends at the producer's next abort marker.
    `transactions` are pairs (producer id, first offset) from the response to a read-committed
    fetch.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        self._ahead = sorted(transactions, key=lambda pair: -pair[1])
        self._open: set[int] = set()

    def leave_out(self, batch: RecordBatch) -> bool:
        """Return whether the next batch of the log was aborted. Process abort markers."""
        while self._ahead and self._ahead[-1][1] <= batch.last_offset:
            self._open.add(self._ahead.pop()[0])
        if batch.is_control:
            if batch.producer_id in self._open and _is_abort(batch):
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


def _is_abort(batch: RecordBatch) -> bool:
    end = read_end_of_transaction(batch)
    return end is not None and not end.committed


def scan(
    buffer: Buffer,
    start_offset: int,
    end_offset: int,
    aborted: Aborted | None = None,
) -> Scan:
    """Select the batches of `buffer` with records in `start_offset <= offset < end_offset`.

    Pass `aborted` for a read-committed read.

    Raises:
        CorruptBatch: a checksum, a length or the format version is wrong.
    """
    view = memoryview(buffer)
    start, headers, has_reached_end = _headers(view, end_offset)
    end = start + headers["length"] + LOG_OVERHEAD
    _check(view, start, end, headers)
    last_offset = headers["base_offset"] + headers["last_offset_delta"]
    attributes = headers["attributes"]
    wanted = (headers["count"] > 0) & (attributes & CONTROL_FLAG == 0)
    wanted &= last_offset >= start_offset
    if aborted is not None:
        for i in np.flatnonzero(attributes & TRANSACTIONAL_FLAG).tolist():
            wanted[i] &= not aborted.leave_out(RecordBatch(view[start[i] : end[i]]))
    next_offset = max(start_offset, int(last_offset.max(initial=-1)) + 1)
    if has_reached_end:  # No records are left before the end.
        next_offset = max(next_offset, end_offset)
    selected = headers[wanted]
    sections = _sections(start[wanted] + HEADER_SIZE, end[wanted], selected)
    codecs = (selected["attributes"] & CODEC_MASK).astype(np.int64)
    size = int(end[-1]) if len(end) else 0
    return Scan(view, sections, codecs, next_offset, headers, size)


def _headers(view: memoryview, end_offset: int) -> tuple[Integers, Headers, bool]:
    """Return the positions of the complete batches that begin before an offset, and their headers.

    Also return whether the last one of them ends there, or the next one begins after it. What
    follows is not looked at: in a segment file, it may be incomplete.
    """
    starts = []
    position, size = 0, len(view)
    has_reached_end = False
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, last_delta = STEP.unpack_from(view, position)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"a batch at byte {position} says that {length} bytes follow")
        if magic != MAGIC:
            raise CorruptBatch(f"the batch at byte {position} has format {magic}, not {MAGIC}")
        if base_offset >= end_offset:
            has_reached_end = True
            break
        if position + LOG_OVERHEAD + length > size:
            break
        starts.append(position)
        position += LOG_OVERHEAD + length
        if base_offset + last_delta + 1 >= end_offset:
            has_reached_end = True
            break
    start = np.array(starts, np.int64)
    data = np.frombuffer(view, np.uint8)
    rows = data[start[:, np.newaxis] + np.arange(HEADER_SIZE)]
    return start, rows.view(HEADER).reshape(len(starts)), has_reached_end


def _check(view: memoryview, start: Integers, end: Integers, headers: Headers) -> None:
    """Check the checksum of each batch."""
    first_covered = start + ATTRIBUTES_POSITION
    columns = (first_covered.tolist(), end.tolist(), headers["crc"].tolist())
    for number, (first, last, crc) in enumerate(zip(*columns, strict=True)):
        if crc32c(view[first:last]) != crc:
            offset = headers["base_offset"][number]
            raise CorruptBatch(f"the checksum of the batch at offset {offset} is wrong")


def _sections(start: Integers, end: Integers, headers: Headers) -> Sections:
    is_append_time = headers["attributes"] & LOG_APPEND_TIME_FLAG != 0
    timestamp = np.where(is_append_time, headers["max_timestamp"], headers["base_timestamp"])
    return Sections(
        start,
        end,
        headers["count"].astype(np.int64),
        headers["base_offset"].astype(np.int64),
        timestamp.astype(np.int64),
        is_append_time,
    )


def decompressed(found: Scan, part_bytes: int) -> Iterator[Records]:
    """Yield the records of the selected batches in parts of about `part_bytes`, in log order.

    A part has at least one batch. Records of compressed batches are decompressed when their part is
    yielded, so only one part needs memory.

    Raises:
        CorruptBatch: the record count of a batch is larger than its size allows.
        RecordsError: the records cannot be decompressed.
    """
    sections = found.sections
    is_compressed = bool(found.codecs.any())
    first, count = 0, len(sections.start)
    while first < count:
        if is_compressed:
            part = _decompressed_part(found, first, part_bytes)
        else:
            limit = sections.start[first] + part_bytes
            stop = int(np.searchsorted(sections.end, limit, side="right"))
            part = Records(found.buffer, sections.part(first, max(stop, first + 1)))
        each = part.sections
        if (each.record_count * RECORD_SIZE_MIN > each.end - each.start).any():
            raise CorruptBatch("the record count of a batch is larger than its size allows")
        yield part
        first += len(each.start)


def _decompressed_part(found: Scan, first: int, part_bytes: int) -> Records:
    """Return the records of the batches from number `first` on, until they have `part_bytes`."""
    sections = found.sections
    pieces: list[Buffer] = []
    size, stop, count = 0, first, len(sections.start)
    while stop < count and (size < part_bytes or stop == first):
        records = found.buffer[sections.start[stop] : sections.end[stop]]
        codec = int(found.codecs[stop])
        pieces.append(decompress(codec, records, PART_BYTES_MAX - size) if codec else records)
        size += len(pieces[-1])
        stop += 1
    end = np.cumsum([len(piece) for piece in pieces])
    start = np.concatenate(([0], end[:-1]))
    payload = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return Records(payload, sections.part(first, stop)._replace(start=start, end=end))
