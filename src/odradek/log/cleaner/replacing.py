"""Puts a cleaned segment into the place of those that it was made from.

The order of the renames is the same as Apache Kafka's, and what makes them one step: a crash
leaves a state that the loader of logs completes, or undoes as a whole.

    .cleaned -> .swap         while one file is still `.cleaned`, the loader drops the new ones
    old -> .deleted           with all files `.swap`, it drops the old ones and completes
    .swap -> the final name

This relies on a file system that keeps the order of changes to a directory, as those with a
journal do. The contents of the new files were synced before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.log import names, snapshots
from odradek.log.segment import Segment

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger("odradek.log.cleaner")


def replace_segments(log: PartitionLog, old_bases: Sequence[int], size: int) -> None:
    """The `.cleaned` files of the first of these segments take the place of all of them.

    `size` is that of the new segment. The old ones are neighbours, and none is active.

    Raises:
        OSError: the device failed.
    """
    first = log.bases.index(old_bases[0])
    old = log.segments[first : first + len(old_bases)]
    assert [segment.base_offset for segment in old] == list(old_bases)
    assert log.active not in old
    new = Segment(log.storage, log.path, old_bases[0], size, old[-1].created_ms)
    new.suffix = names.CLEANED
    status = new.status()
    assert status is not None
    assert status.size == size, f"{new!r} has {status.size} bytes"
    new.rename(names.SWAP)
    paths = []
    for segment in old:
        segment.rename(names.DELETED)
        paths += [segment.path(kind) for kind in names.SEGMENT_KINDS]
        segment.close_file()
    new.rename("")
    if log.storage.file_system.status(new.path(names.TRANSACTION_INDEX)) is None:
        new.aborted = []
    log.segments = [*log.segments[:first], new, *log.segments[first + len(old) :]]
    log.bases = [segment.base_offset for segment in log.segments]
    log.is_unsynced = True
    log.storage.remove_later(paths, log.config.file_delete_delay_ms)
    snapshots.remove(log, list(old_bases[1:]))
    logger.debug("%s: %r replaces %d segments", log.topic_partition, new, len(old))
