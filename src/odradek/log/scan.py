"""Reads the batch headers in a `.log` file."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from odradek.env.file_system import FileSystem
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DamagedFile
from odradek.records.batch import (
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
)
from odradek.records.errors import CorruptBatch
from odradek.records.legacy import LegacyMessage

_PIECE = 8_192
"""Number of bytes per read. If a batch is larger, its last bytes are not read."""
_HEADER = Struct(">qiibIhiqq")
_MIN = 17


class BatchAt:
    """The position of a batch in a file, and the header fields that searches need."""

    __slots__ = ("base_offset", "last_offset", "leader_epoch", "max_timestamp", "position", "size")

    def __init__(
        self,
        position: int,
        size: int,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        max_timestamp: int,
    ) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.leader_epoch = leader_epoch
        self.max_timestamp = max_timestamp

    def __repr__(self) -> str:
        return f"BatchAt({self.position}, {self.base_offset}..{self.last_offset})"


def scan_batches(
    file_system: FileSystem, file: OpenFile, position: int, end: int
) -> Iterator[BatchAt]:
    """Yield the batches from `position` to `end`. A batch must end at `end`.

    Raises:
        DamagedFile: a batch is incomplete, or has an invalid length or format.
        OSError: the device failed.
    """
    pread = file_system.pread
    data = b""
    start = position  # file position of `data`
    while end - position >= _MIN:
        inner = position - start
        if inner < 0 or inner + HEADER_SIZE > len(data):
            data = pread(file.descriptor, min(_PIECE, end - position), position)
            start = position
            inner = 0
            if len(data) < min(HEADER_SIZE, end - position):
                raise DamagedFile(f"the file ends at {position + len(data)}, not at {end}")
        batch = _batch_at(data, inner, position, end)
        yield batch
        position += batch.size
    if position < end:
        raise DamagedFile(f"there is no batch at byte {position}, only {end - position} bytes")


def read_header(file_system: FileSystem, file: OpenFile, position: int, end: int) -> BatchAt:
    """Return the batch at `position`.

    Raises:
        DamagedFile: the batch is incomplete, or has an invalid length or format.
        OSError: the device failed.
    """
    data = file_system.pread(file.descriptor, min(HEADER_SIZE, end - position), position)
    if len(data) < _MIN:
        raise DamagedFile(f"there is no batch at byte {position}, only {len(data)} bytes")
    return _batch_at(data, 0, position, end)


def _batch_at(data: bytes, inner: int, position: int, end: int) -> BatchAt:
    magic = data[inner + MAGIC_POSITION]
    if magic == MAGIC and inner + _HEADER.size <= len(data):
        base, length, epoch, _, _, _, delta, _, timestamp = _HEADER.unpack_from(data, inner)
        size = length + LOG_OVERHEAD
        if not HEADER_SIZE <= size <= end - position or delta < 0:
            raise DamagedFile(
                f"the batch at byte {position} says that it has {size} bytes "
                f"and ends {delta} offsets after its base"
            )
        return BatchAt(position, size, base, base + delta, epoch, timestamp)
    return _legacy_at(data, inner, position, end)


def _legacy_at(data: bytes, inner: int, position: int, end: int) -> BatchAt:
    offset, length = Struct(">qi").unpack_from(data, inner)
    magic = data[inner + MAGIC_POSITION]
    size = length + LOG_OVERHEAD
    if not LEGACY_SIZE_MIN <= size <= end - position or magic > MAGIC:
        raise DamagedFile(f"there is no batch at byte {position} (format {magic}, {size} bytes)")
    timestamp = -1
    if magic == 1:
        timestamp = Struct(">q").unpack_from(data, inner + 18)[0]
    return BatchAt(position, size, offset, offset, -1, timestamp)


def read_batch(
    file_system: FileSystem, file: OpenFile, place: BatchAt
) -> RecordBatch | LegacyMessage:
    """Read a whole batch and check its checksum.

    Raises:
        DamagedFile: there is no such batch, or its checksum is wrong.
        OSError: the device failed.
    """
    data = file_system.pread(file.descriptor, place.size, place.position)
    try:
        is_new = len(data) > MAGIC_POSITION and data[MAGIC_POSITION] == MAGIC
        batch = RecordBatch(data) if is_new else LegacyMessage(data)
    except CorruptBatch as error:
        raise DamagedFile(f"at byte {place.position}: {error}") from None
    if not batch.is_valid:
        raise DamagedFile(f"the batch at byte {place.position} has a wrong checksum")
    return batch
