"""The producer snapshots of a log: taken when it rolls and closes, read when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.env.file_system import CREATE_EMPTY, write_fully
from odradek.log import names
from odradek.log.producer_snapshot import snapshot_content

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog


def path_of(directory: str, offset: int) -> str:
    """The file of the snapshot at an offset."""
    return f"{directory}/{names.file_name(offset, names.PRODUCER_SNAPSHOT)}"


def take(log: PartitionLog, offset: int) -> None:
    """Write the producers as they are at `offset`, unless that was done before.

    The file is synced when the log is flushed.

    Raises:
        OSError: the device failed.
    """
    if offset <= log.snapshot_offset:
        return
    producers = log.producers
    content = snapshot_content(() if producers is None else producers.entries.values())
    file_system = log.storage.file_system
    descriptor = file_system.open(path_of(log.path, offset), CREATE_EMPTY)
    try:
        write_fully(file_system, descriptor, content, 0)
    finally:
        file_system.close(descriptor)
    log.snapshots.append(offset)
    log.snapshot_offset = offset
    log.is_unsynced = True


def remove(log: PartitionLog, offsets: list[int]) -> None:
    """Remove the snapshots at these offsets, after the delay for files."""
    present = [offset for offset in offsets if offset in log.snapshots]
    if not present:
        return
    file_system = log.storage.file_system
    paths = []
    for offset in present:
        log.snapshots.remove(offset)
        source = path_of(log.path, offset)
        file_system.rename(source, source + names.DELETED)
        paths.append(source + names.DELETED)
    log.storage.remove_later(paths, log.config.file_delete_delay_ms)
    log.is_unsynced = True
