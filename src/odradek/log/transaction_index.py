"""The `.txnindex` of a segment: transactions whose abort marker lies in it.

    version int16 (0) | producer id int64 | first offset int64 | last offset int64
    | last stable offset after it int64

The file is there only if a transaction was aborted. Entries are written as they come; recovery
makes them anew.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from odradek.env.file_system import CREATE, FileSystem, read_file, write_fully
from odradek.log.errors import DamagedFile

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """All records of the producer in these offsets, marker included, are to be skipped."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset of the log once the marker was written."""


def read_aborted(file_system: FileSystem, path: str, base_offset: int) -> list[AbortedTransaction]:
    """The whole index; empty where there is no file.

    Raises:
        DamagedFile: not entries of this segment.
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
    """Add an entry to the file, which is made if it is not there.

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
    """Bytes of the entries whose marker is below `offset`; None where there is no file.

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
    """Forget transactions whose marker is at `offset` or after it.

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
