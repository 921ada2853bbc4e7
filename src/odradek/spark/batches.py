"""From fetched bytes to the batches whose records a reader wants.

A fetch response holds whole record batches, the last one possibly cut, the first one possibly
older than asked for. `scan` reads their headers and decides for each: corrupt (an error),
transaction marker, aborted, outside the range, or wanted. What is wanted is laid into one
contiguous payload, decompressed, where `positions` finds all records at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.records.batch import HEADER_SIZE, RECORD_SIZE_MIN, RecordBatch, iterate_batches
from odradek.records.compression import decompress
from odradek.records.control import read_end_of_transaction
from odradek.records.errors import CorruptBatch

PAYLOAD_SIZE_MAX = 2**31 - 1
"""Arrow's offsets are of 32 bits."""


class Section(NamedTuple):
    """A wanted batch: where its records lie in the payload, and what they are relative to."""

    start: int
    end: int
    record_count: int
    base_offset: int
    base_timestamp: int
    append_timestamp: int | None
    """The timestamp of all records where the topic has LogAppendTime."""


class Scan(NamedTuple):
    """What a fetched buffer holds for a reader."""

    payload: bytes | bytearray | memoryview
    """The fetched buffer itself where nothing was compressed."""
    sections: list[Section]
    next_offset: int
    """Where to fetch next: after the last whole batch, wanted or not."""


class AbortedTransactions:
    """Which producers' batches are to be left out, as one walks up the log (KIP-98).

    A transaction that was aborted begins at a known offset and ends at its producer's abort
    marker. `transactions` are pairs (producer id, first offset) of a read-committed fetch.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        self._ahead = sorted(transactions, key=lambda pair: -pair[1])
        self._open: set[int] = set()

    def leave_out(self, batch: RecordBatch) -> bool:
        """Whether `batch`, the next of the log, was aborted; takes note of abort markers."""
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
    buffer: bytes | bytearray | memoryview,
    start_offset: int,
    end_offset: int,
    aborted: AbortedTransactions | None = None,
) -> Scan:
    """The batches of `buffer` with records in `start_offset <= offset < end_offset`.

    `aborted` is given where only committed records are read.

    Raises:
        CorruptBatch: a checksum, a length or the format version is wrong.
        RecordsError: the records cannot be decompressed.
    """
    next_offset = start_offset
    position = 0
    wanted: list[tuple[int, RecordBatch]] = []
    for batch in iterate_batches(buffer):
        if next_offset >= end_offset:
            break
        batch.check()
        is_aborted = aborted is not None and aborted.leave_out(batch)
        holds_records = batch.count > 0 and not batch.is_control
        if holds_records and not is_aborted and batch.last_offset >= start_offset:
            wanted.append((position, batch))
        next_offset = max(next_offset, batch.next_offset)
        position += batch.size
    if any(batch.codec for _, batch in wanted):
        return Scan(*_decompressed([batch for _, batch in wanted]), next_offset)
    sections = [
        _section(batch, position + HEADER_SIZE, batch.size - HEADER_SIZE)
        for position, batch in wanted
    ]
    return Scan(memoryview(buffer), sections, next_offset)


def _decompressed(wanted: list[RecordBatch]) -> tuple[bytes, list[Section]]:
    """The records of all batches, one batch after the other."""
    pieces: list[bytes | bytearray | memoryview] = []
    sections: list[Section] = []
    position = 0
    for batch in wanted:
        room = PAYLOAD_SIZE_MAX - position
        piece = decompress(batch.codec, batch.payload, room) if batch.codec else batch.payload
        sections.append(_section(batch, position, len(piece)))
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces), sections


def _section(batch: RecordBatch, start: int, size: int) -> Section:
    if batch.count * RECORD_SIZE_MIN > size:
        raise CorruptBatch(f"{batch.count} records in {size} bytes at offset {batch.base_offset}")
    return Section(
        start,
        start + size,
        batch.count,
        batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp if batch.is_log_append_time else None,
    )
