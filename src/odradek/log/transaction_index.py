"""The `.txnindex` file of a segment, with the aborted transactions whose marker is in the segment.

    version int16 (0) | producer id int64 | first offset int64 | last offset int64
    | last stable offset after the marker int64

The file exists only if a transaction was aborted. Entries are written immediately. Recovery
rebuilds the file.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from odradek.env.file_system import CREATE, FileSystem, read_file, write_fully
from odradek.log.errors import DamagedFile

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction. The range of offsets includes the marker.

    Consumers skip all records of the producer in this range.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset of the log after the marker was written."""


def read_aborted(file_system: FileSystem, path: str, base_offset: int) -> list[AbortedTransaction]:
    """Read all entries of the index. Return an empty list if there is no file.

    Raises:
        DamagedFile: the file has entries that do not belong to this segment.
        OSError: the device failed.
    """
    try:
        data = read_file(file_system, path)
    except FileNotFoundError:
        return []
    entries = []
    whole = len(data) - len(data) % ENTRY.size
    for version, *fields in ENTRY.iter_unpack(data[:whole]):
        entry = AbortedTransaction(*fields)
        if version != VERSION or entry.last_offset < base_offset:
            raise DamagedFile(f"{path}: {entry} in version {version} cannot be in this segment")
        entries.append(entry)
    return entries


def append_aborted(file_system: FileSystem, path: str, entry: AbortedTransaction) -> None:
    """Append an entry to the file. Create the file if necessary.

    Raises:
        OSError: the device failed.
    """
    descriptor = file_system.open(path, CREATE)
    try:
        end = file_system.size(descriptor)
        position = end - end % ENTRY.size
        write_fully(file_system, descriptor, ENTRY.pack(VERSION, *entry), position)
    finally:
        file_system.close(descriptor)


def length_to(file_system: FileSystem, path: str, offset: int) -> int | None:
    """Return the size in bytes of the entries whose marker is below `offset`.

    Return None if there is no file.

    Raises:
        OSError: the device failed.
    """
    try:
        data = read_file(file_system, path)
    except FileNotFoundError:
        return None
    whole = len(data) - len(data) % ENTRY.size
    return ENTRY.size * sum(1 for entry in ENTRY.iter_unpack(data[:whole]) if entry[3] < offset)


def truncate_aborted(file_system: FileSystem, path: str, offset: int) -> None:
    """Remove the transactions whose marker is at or above `offset`.

    Raises:
        OSError: the device failed.
    """
    length = length_to(file_system, path, offset)
    if length is None:
        return
    descriptor = file_system.open(path, CREATE)
    try:
        file_system.truncate(descriptor, length)
    finally:
        file_system.close(descriptor)
