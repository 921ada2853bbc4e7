"""Finds a log's producers again: from the newest snapshot, and the batches after it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.env.file_system import FileSystem, read_file
from odradek.log import snapshots
from odradek.log.errors import DamagedFile
from odradek.log.producer_snapshot import read_snapshot
from odradek.log.producer_state import ProducerState
from odradek.log.scan import read_batch
from odradek.log.segment import Segment
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger("odradek.log")


def load_newest_snapshot(
    file_system: FileSystem, directory: str, offsets: list[int], floor: int
) -> tuple[ProducerState, int]:
    """The producers in the newest snapshot that can be read, and its offset.

    `offsets` are those of the snapshots, ascending; damaged ones are removed, from it and from
    the disk. Without any: no producers, as of `floor`, where the log starts.

    Raises:
        OSError: the device failed.
    """
    state = ProducerState()
    while offsets:
        path = snapshots.path_of(directory, offsets[-1])
        try:
            for entry in read_snapshot(path, read_file(file_system, path)):
                state.add_entry(entry)
            return state, offsets[-1]
        except FileNotFoundError:
            offsets.pop()
        except DamagedFile as error:
            logger.warning("left out a snapshot of producers: %s", error)
            file_system.remove(path)
            offsets.pop()
    return state, floor


def replay_segment(
    state: ProducerState, segment: Segment, start_offset: int, end_offset: int
) -> None:
    """Take in the batches of a segment from `start_offset` on, below `end_offset`.

    Raises:
        DamagedFile: a batch is damaged.
        OSError: the device failed.
    """
    file_system = segment.storage.file_system
    for place in segment.batches(segment.position_before(start_offset)):
        if place.last_offset < start_offset:
            continue
        if place.base_offset >= end_offset:
            return
        file = segment.file or segment.open_file()
        batch = read_batch(file_system, file, place)
        if isinstance(batch, RecordBatch) and batch.has_producer_id:
            try:
                state.replay(batch)
            except RecordsError as error:
                raise DamagedFile(f"at byte {place.position} of {segment!r}: {error}") from None


def reload_producers(log: PartitionLog) -> None:
    """Forget the producers, and find again what they were at the log's end, which moved back.

    Raises:
        DamagedFile: a batch is damaged.
        OSError: the device failed.
    """
    if log.producers is None and not log.snapshots:
        log.snapshot_offset = log.log_start_offset
        return
    beyond = [offset for offset in log.snapshots if offset > log.log_end_offset]
    snapshots.remove(log, beyond)
    state, offset = load_newest_snapshot(
        log.storage.file_system, log.path, log.snapshots, log.log_start_offset
    )
    log.snapshot_offset = offset
    for segment in log.segments[max(0, log.segment_of(offset)) :]:
        replay_segment(state, segment, max(offset, log.log_start_offset), log.log_end_offset)
    log.producers = state if state.entries or state.ongoing else None
