"""Reads the batches of a segment in large pieces, and checks their checksums.

A damaged batch must not be copied. The copy would get a new checksum, and nothing could detect the
damage any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.env.file_system import READ_ONLY, FileSystem
from odradek.log.errors import DamagedFile
from odradek.records.batch import (
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    SIZE,
    RecordBatch,
)
from odradek.records.errors import CorruptBatch

PIECE_MIN = 65_536

OnBytes = Callable[[int], None]
"""Called with the number of bytes that were read or written. It may wait, to limit the rate, and it
may raise an exception, to stop the round."""


def read_batches(
    file_system: FileSystem, path: str, position: int, size: int, piece_bytes: int, on_read: OnBytes
) -> Iterator[RecordBatch]:
    """Yield the batches in the first `size` bytes of a `.log` file.

    `position` is the position of the first batch. A batch may be used until the next batch is
    requested.

    Raises:
        DamagedFile: the file does not consist of valid batches. The message names the position.
        OSError: the device failed.
    """
    piece_bytes = max(piece_bytes, PIECE_MIN)
    descriptor = file_system.open(path, READ_ONLY)
    try:
        wanted = piece_bytes
        while position < size:
            data = file_system.pread(descriptor, min(wanted, size - position), position)
            on_read(len(data))
            view = memoryview(data)
            inner = 0
            wanted = piece_bytes
            while len(data) - inner >= HEADER_SIZE:
                length = SIZE.unpack_from(data, inner + LENGTH_POSITION)[0] + LOG_OVERHEAD
                if data[inner + MAGIC_POSITION] != MAGIC or length < HEADER_SIZE:
                    raise _no_batch(path, position + inner, data[inner + MAGIC_POSITION], length)
                if length > len(data) - inner:
                    wanted = max(piece_bytes, length)
                    break
                yield _checked(path, position + inner, view[inner : inner + length])
                inner += length
            if inner == 0 and (len(data) == size - position or len(data) < HEADER_SIZE):
                raise DamagedFile(f"{path} ends inside of the batch at byte {position}")
            position += inner
    finally:
        file_system.close(descriptor)


def _checked(path: str, position: int, data: memoryview) -> RecordBatch:
    batch = RecordBatch(data)
    try:
        batch.check()
    except CorruptBatch as error:
        raise DamagedFile(f"{path}, byte {position}: {error}") from None
    if batch.count < 0 or batch.last_offset_delta < 0:
        raise DamagedFile(f"{path}, byte {position}: {batch!r} is invalid")
    return batch


def _no_batch(path: str, position: int, magic: int, size: int) -> DamagedFile:
    if magic in (0, 1):
        return DamagedFile(f"{path} has messages of format {magic}, which are not compacted")
    return DamagedFile(f"{path} has no batch at byte {position} (format {magic}, {size} bytes)")
