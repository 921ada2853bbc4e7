"""Reads the original records of dead letters from the log of their partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.partition import Partition
from odradek.env.executor import Executor, call
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.log.errors import OffsetOutOfRange
from odradek.model.errors import ApiError
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.errors import CorruptBatch, InvalidRecords
from odradek.records.record import Record, iterate_records

log = logging.getLogger("odradek.share")

READ_BYTES_MAX: Final = 1 << 20
"""Size of the part of a log that is read at once."""
DECODED_BYTES_MAX: Final = 64 << 20
"""The most bytes of records, after decompression, that are decoded for one read."""


class Originals:
    """Reads records of partitions that this broker leads."""

    def __init__(
        self, cold_reads: ColdReads, executor: Executor, loop: asyncio.AbstractEventLoop
    ) -> None:
        """A thread of `executor` decodes the records."""
        self._cold_reads = cold_reads
        self._executor = executor
        self._loop = loop

    async def read(
        self, partition: Partition, offsets: Sequence[int], bytes_max: int
    ) -> tuple[dict[int, Record], int]:
        """Return records with these offsets, and the last offset up to which all are returned.

        This offset is at least the first of `offsets`, which ascend. Records that cannot be read
        are left out: retention or compaction may have removed them. About `bytes_max` bytes of
        records are returned at most.
        """

        def look(files: FileSystem) -> bytes:
            return _read(partition, offsets[0], files)

        try:
            try:
                data = look(self._cold_reads.non_blocking)
            except ReadWouldBlock as missing:
                data = await self._cold_reads.look_again(look, missing)
        except (ApiError, OffsetOutOfRange, OSError) as error:
            log.info("original records of %s cannot be read: %s", partition.topic, error)
            return {}, offsets[0]
        wanted = frozenset(offsets)
        return await call(
            self._executor, lambda: _select(data, wanted, offsets[0], bytes_max), loop=self._loop
        )


def _read(partition: Partition, offset: int, files: FileSystem) -> bytes:
    log_ = partition.log
    found = log_.read(offset, READ_BYTES_MAX, log_.high_watermark, True, False, files)
    if found is None:
        return b""
    records = found.records
    return files.pread(records.descriptor, records.length, records.position)


def _select(
    data: bytes, wanted: frozenset[int], first: int, bytes_max: int
) -> tuple[dict[int, Record], int]:
    """Return the records that are wanted, and up to which offset they are known.

    If a batch cannot be decoded, or not within the limit, its other records are left out.
    """
    found: dict[int, Record] = {}
    known_to = first
    left, decoded = bytes_max, 0
    batch: RecordBatch | None = None
    try:
        for batch in iterate_batches(data):
            for record in () if batch.is_control else iterate_records(batch, DECODED_BYTES_MAX):
                size = _size(record)
                decoded += size
                if decoded > DECODED_BYTES_MAX:
                    return found, max(first, batch.last_offset)
                if record.offset in wanted:
                    if found and size > left:
                        return found, known_to
                    found[record.offset] = record
                    left -= size
                known_to = max(known_to, record.offset)
            known_to = max(known_to, batch.last_offset)
    except (CorruptBatch, InvalidRecords) as error:
        log.info("original records from offset %d on cannot be decoded: %s", known_to, error)
        if isinstance(error, CorruptBatch) or batch is None:
            known_to = max(wanted)
        else:
            known_to = max(first, batch.last_offset)
    return found, known_to


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(content or b"") for name, content in record.headers)
