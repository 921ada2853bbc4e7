"""The `.txnindex` file of a segment, with the aborted transactions whose marker is in the segment.

`odradek.records.segment_files` has its format. The file exists only if a transaction was aborted. Entries
are written immediately. Recovery rebuilds the file.
"""

from __future__ import annotations

from odradek.env.file_system import CREATE, FileSystem, read_file, write_fully
from odradek.log.errors import DamagedFile
from odradek.records.segment_files import (
    ABORTED_ENTRY,
    AbortedTransaction,
    decode_aborted,
    encode_aborted,
    whole_length,
)


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
    try:
        entries = decode_aborted(data)
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from None
    for each in entries:
        if each.last_offset < base_offset:
            raise DamagedFile(f"{path}: {each} cannot be in this segment")
    return entries


def append_aborted(file_system: FileSystem, path: str, entry: AbortedTransaction) -> None:
    """Append an entry to the file. Create the file if necessary.

    Raises:
        OSError: the device failed.
    """
    descriptor = file_system.open(path, CREATE)
    try:
        position = whole_length(file_system.size(descriptor), ABORTED_ENTRY)
        write_fully(file_system, descriptor, encode_aborted([entry]), position)
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
    whole = data[: whole_length(len(data), ABORTED_ENTRY)]
    count = sum(1 for entry in ABORTED_ENTRY.iter_unpack(whole) if entry[3] < offset)
    return ABORTED_ENTRY.size * count


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
