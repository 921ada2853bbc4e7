"""Reads the files of logs for the command-line tools.

This module changes no file. (`inspect_repair` changes files.) A node may use the directory at the
same time. Then data that the node is writing may look incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from odradek.env.file_system import READ_ONLY, FileSystem, read_file
from odradek.log import names
from odradek.log.index import Index, OffsetIndex, TimeIndex
from odradek.records.batch import (
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    SIZE,
    RecordBatch,
)
from odradek.records.errors import RecordsError
from odradek.records.legacy import LegacyMessage


class Kind(Enum):
    """The type of a file. The name of the file determines the type."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    METADATA_SNAPSHOT = "metadata snapshot"
    LEADER_EPOCHS = "leader epochs"
    OFFSETS = "offsets of partitions"
    PARTITION_METADATA = "partition.metadata"
    PROPERTIES = "properties"
    JSON = "JSON"


_BY_SUFFIX = {
    names.LOG: Kind.SEGMENT,
    names.OFFSET_INDEX: Kind.OFFSET_INDEX,
    names.TIME_INDEX: Kind.TIME_INDEX,
    names.TRANSACTION_INDEX: Kind.TRANSACTION_INDEX,
    names.PRODUCER_SNAPSHOT: Kind.PRODUCER_SNAPSHOT,
}
_BY_NAME = {
    names.LEADER_EPOCH_CHECKPOINT: Kind.LEADER_EPOCHS,
    names.PARTITION_METADATA: Kind.PARTITION_METADATA,
    names.RECOVERY_POINT_CHECKPOINT: Kind.OFFSETS,
    names.LOG_START_OFFSET_CHECKPOINT: Kind.OFFSETS,
    names.HIGH_WATERMARK_CHECKPOINT: Kind.OFFSETS,
    names.CLEANER_CHECKPOINT: Kind.OFFSETS,
    names.META_PROPERTIES: Kind.PROPERTIES,
    names.CLEAN_SHUTDOWN: Kind.JSON,
    "quorum-state": Kind.JSON,
    "bootstrap.checkpoint": Kind.METADATA_SNAPSHOT,
}
_METADATA_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)
_SEGMENT_FILE = re.compile(r"(\d{20})(\.[a-z]+)(?:\.(?:deleted|cleaned|swap))?", re.ASCII)


def kind_of(path: str) -> Kind | None:
    """Return the type of a file; None if its name has another form."""
    name = Path(path).name
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _METADATA_SNAPSHOT.fullmatch(name):
        return Kind.METADATA_SNAPSHOT
    found = _SEGMENT_FILE.fullmatch(name)
    return _BY_SUFFIX.get(found[2]) if found else None


def files_in(file_system: FileSystem, path: str) -> list[str]:
    """Return the file at a path. For a directory, return its files of known kinds.

    The partition directories in a directory are searched, too.

    Raises:
        FileNotFoundError: the path does not exist.
        OSError: a directory cannot be read.
    """
    status = file_system.status(path)
    if status is None:
        raise FileNotFoundError(2, "no such file or directory", path)
    if not status.is_directory:
        return [path]
    found = []
    for entry in sorted(file_system.scan(path)):
        inner = f"{path.rstrip('/')}/{entry.name}"
        if entry.is_directory:
            if names.parse_directory(entry.name) is not None:
                found += files_in(file_system, inner)
        elif kind_of(inner) is not None:
            found.append(inner)
    return found


def is_partition_directory(file_system: FileSystem, path: str) -> bool:
    """Return whether a directory is the directory of a partition.

    A log directory may have such a name, too. It contains `meta.properties` or directories.
    """
    return names.parse_directory(Path(path).resolve().name) is not None and not any(
        entry.name == names.META_PROPERTIES or entry.is_directory
        for entry in file_system.scan(path)
    )


def partition_directories(file_system: FileSystem, path: str) -> list[str]:
    """Return the partition directories in a log directory.

    If the path is a partition directory itself, return only this path.
    """
    if is_partition_directory(file_system, path):
        return [path]
    return [
        f"{path.rstrip('/')}/{entry.name}"
        for entry in sorted(file_system.scan(path))
        if entry.is_directory and names.parse_directory(entry.name) is not None
    ]


class Place(NamedTuple):
    """A position in a file, and the batch at this position.

    `problem` says what is wrong with the batch. If there is no batch at the position, `batch` is
    None, and `problem` says why.
    """

    position: int
    batch: RecordBatch | LegacyMessage | None
    problem: str | None = None


def places(file_system: FileSystem, path: str) -> Iterator[Place]:
    """Yield the batches of a `.log` file or of a metadata snapshot.

    After a batch with a wrong checksum, the iteration continues. It ends at the first bytes that
    are not a batch.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = file_system.open(path, READ_ONLY)
    try:
        end = file_system.size(descriptor)
        position = 0
        while position < end:
            place = _place(file_system, descriptor, position, end)
            yield place
            if place.batch is None:
                return
            position += place.batch.size
    finally:
        file_system.close(descriptor)


def _place(file_system: FileSystem, descriptor: int, position: int, end: int) -> Place:
    head = file_system.pread(descriptor, HEADER_SIZE, position)
    if len(head) < LEGACY_SIZE_MIN:
        return Place(position, None, f"{len(head)} bytes are left over at the end")
    if not any(head):
        return Place(position, None, f"there are zeros from here on ({end - position} bytes)")
    size = SIZE.unpack_from(head, LENGTH_POSITION)[0] + LOG_OVERHEAD
    magic = head[MAGIC_POSITION]
    if magic > MAGIC or size < LEGACY_SIZE_MIN:
        return Place(position, None, f"there is no batch (format {magic}, {size} bytes)")
    if size > end - position:
        return Place(
            position, None, f"a batch of {size} bytes is cut off: {end - position} are there"
        )
    data = file_system.pread(descriptor, size, position)
    try:
        batch = RecordBatch(data) if magic == MAGIC else LegacyMessage(data)
    except RecordsError as error:
        return Place(position, None, str(error))
    if not batch.is_valid:
        return Place(position, batch, "the checksum is wrong")
    return Place(position, batch)


def index_entries(
    file_system: FileSystem, path: str, index: type[Index]
) -> tuple[list[tuple[int, int]], int]:
    """Return the entries of an index file, and the number of bytes after the last entry.

    Zeros at the end of the file are not entries: Apache Kafka reserves space for the indexes of an
    active segment.

    Raises:
        OSError: the file cannot be read.
    """
    data = read_file(file_system, path)
    step = index.ENTRY.size
    used = len(data.rstrip(b"\0"))
    count = -(-used // step)
    whole = min(count, len(data) // step)
    entries = [(first, second) for first, second in index.ENTRY.iter_unpack(data[: whole * step])]
    return entries, len(data) - whole * step


def offset_entries(file_system: FileSystem, path: str) -> tuple[list[tuple[int, int]], int]:
    """Return `index_entries` of an `.index`. Entries are (relative offset, position)."""
    return index_entries(file_system, path, OffsetIndex)


def time_entries(file_system: FileSystem, path: str) -> tuple[list[tuple[int, int]], int]:
    """Return `index_entries` of a `.timeindex`. Entries are (timestamp, relative offset)."""
    return index_entries(file_system, path, TimeIndex)
