"""The end of a log: the log end offset, and what changes it.

All appends end in `LogEnd.append` or `LogEnd.append_run`. Both write to the active segment, advance the
log end offset and, if `flush.messages` is reached, begin a flush. `append` rolls if necessary, and
writes the base offset and the leader epoch into the batch if this broker assigns them. If a write
fails, the state in memory is unchanged; the error is DiskFull, or the log directory goes offline.

A truncation changes the state in memory at once, and the files later. Nothing may be appended until
it survives a crash. So before each append, the caller calls `check_ready`, which completes a running
truncation on the event loop's thread. The leader's fast path does not; it is disabled meanwhile
(`LogAppender.no_fast_path_until`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import Struct
from typing import Final

from odradek.config.topic_config import TopicConfig
from odradek.log import names
from odradek.log.errors import DamagedFile, DiskFull, LogDirectoryOffline
from odradek.log.flush_state import FlushState, Truncated
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.loader import LoadedLog
from odradek.log.log_segments import LogSegments
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_state import CompletedTransaction
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.results import AppendInfo
from odradek.log.roll_policy import RollPolicy
from odradek.log.segment import AppendedBatch, Segment
from odradek.records.batch import BASE_OFFSET, LOG_OVERHEAD, Buffer
from odradek.records.segment_files import AbortedTransaction

logger = logging.getLogger("odradek.log")

GIVEN: Final = -1
"""In place of a leader epoch, this means that the batch has its offset and epoch already."""

pack_start: Final = Struct(">qii").pack_into
"""Base offset, length, leader epoch. A leader writes these fields into a batch."""


class LogEnd:
    """The end of one log. Only this class changes the log end offset."""

    __slots__ = (
        "_directory",
        "_epochs",
        "_file_delete_delay_ms",
        "_flush",
        "_policy",
        "_producers",
        "_segments",
        "log_end_offset",
        "segment_bytes",
    )

    def __init__(
        self,
        directory: PartitionDirectory,
        loaded: LoadedLog,
        flush: FlushState,
        config: TopicConfig,
    ) -> None:
        self._directory = directory
        self._segments: LogSegments = loaded.segments
        self._flush = flush
        self._producers: ProducerStateManager = loaded.producers
        self._epochs: LeaderEpochs = loaded.leader_epochs
        self.log_end_offset: int = loaded.log_end_offset
        """The offset that the next record gets."""
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self._policy = RollPolicy(config)
        self._file_delete_delay_ms = config.file_delete_delay_ms
        self.segment_bytes = config.segment_bytes
        """The largest size of a segment."""
        self._segments.active.set_roll_policy(self._policy)

    # -- appends ---------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Check that the disk has not failed, and wait for a running truncation.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        self._directory.check_online()
        self._flush.finish_truncation()

    def append(
        self,
        records: Buffer,
        size: int,
        offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        completed: CompletedTransaction | None = None,
    ) -> None:
        """Append one batch. If it is a marker, `completed` is the transaction that it ends.

        No truncation is running (`check_ready`).
        `offset` and `leader_epoch` are written into the batch, unless `leader_epoch` is `GIVEN`.

        Raises:
            DiskFull: the disk is full, and nothing has changed.
            LogDirectoryOffline: the disk failed.
        """
        segment = self._segments.active
        if (
            segment.size + size > self.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or last_offset > segment.last_offset_max
        ):
            segment = self.roll_if_due(size, max_timestamp, offset, last_offset)
        assert self.log_end_offset <= offset <= last_offset, "offsets increase"
        if leader_epoch >= 0:
            try:
                pack_start(records, 0, offset, size - LOG_OVERHEAD, leader_epoch)
            except TypeError:  # the caller's buffer is read-only
                records = bytearray(records)
                pack_start(records, 0, offset, size - LOG_OVERHEAD, leader_epoch)
        aborted = None if completed is None else self._aborted(completed)
        try:
            if aborted is not None:
                segment.note_aborted(aborted)
                self._directory.on_names_changed()
            segment.append(records, size, offset, last_offset, max_timestamp)
        except OSError as error:
            raise self._not_appended(segment, records, leader_epoch, aborted, error) from error
        self._advance(last_offset)

    def append_run(self, records: memoryview, batches: Sequence[AppendedBatch]) -> None:
        """Append batches that have their offsets already, in one write, without a roll.

        No truncation is running (`check_ready`). There is room in the segment (`has_room`).

        Raises:
            DiskFull, LogDirectoryOffline: see `append`.
        """
        assert batches[0].base_offset >= self.log_end_offset, "offsets increase"
        try:
            self._segments.active.append_batches(records, len(records), batches)
        except OSError as error:
            raise self._directory.refuse("append to", error) from error
        self._advance(batches[-1].last_offset)

    def _advance(self, last_offset: int) -> None:
        self.log_end_offset = last_offset + 1
        if last_offset >= self._flush.due_offset:
            self._flush.flush_in_background(last_offset + 1)

    def _not_appended(
        self,
        segment: Segment,
        records: Buffer,
        leader_epoch: int,
        aborted: AbortedTransaction | None,
        error: OSError,
    ) -> DiskFull | LogDirectoryOffline:
        """Undo the effects of a failed write. Return the exception to raise."""
        if leader_epoch >= 0 and not memoryview(records).readonly:
            # The caller may append the batch again, so restore its base offset.
            BASE_OFFSET.pack_into(records, 0, 0)
        refusal = self._directory.refuse("append to", error)
        if aborted is not None and isinstance(refusal, DiskFull):
            try:
                segment.take_back_aborted(aborted)
            except OSError as second:
                return self._directory.fail("write the transaction index of", second)
        return refusal

    def has_room(self, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Return whether batches of `size` bytes certainly need no new segment."""
        segment = self._segments.active
        return (
            segment.size + size <= self.segment_bytes
            and max_timestamp <= segment.roll_timestamp
            and last_offset <= segment.last_offset_max
        )

    def _aborted(self, completed: CompletedTransaction) -> AbortedTransaction | None:
        """Return the transaction index entry for a marker that will be appended.

        Return None if the marker does not abort a transaction. The entry is written before the
        marker, so that a full disk cannot leave a marker without an entry. If the marker cannot be
        written, the entry is removed. After a crash, recovery removes an entry without a marker.
        """
        if not completed.aborted:
            return None
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self._producers.last_stable_offset_after(completed),
        )

    def info(
        self, offset: int, last_offset: int, append_time_ms: int = -1, is_duplicate: bool = False
    ) -> AppendInfo:
        """Return the result of an append of these offsets."""
        start_offset = self._segments.log_start_offset
        return AppendInfo(offset, last_offset, start_offset, append_time_ms, is_duplicate)

    # -- rolling --------------------------------------------------------------------------------

    def roll_if_due(
        self, size: int, max_timestamp: int, first_offset: int, last_offset: int
    ) -> Segment:
        """Return the segment for a batch. This is the active segment or a new segment.

        Raises:
            DiskFull: there is no room for a new segment.
            LogDirectoryOffline: the disk failed.
        """
        segment = self._segments.active
        try:
            is_due = segment.should_roll(size, max_timestamp, last_offset)
        except (OSError, DamagedFile) as error:
            raise self._directory.unreadable(error) from error
        return self.roll(first_offset) if is_due else segment

    def roll(self, base_offset: int) -> Segment:
        """Seal the active segment, and begin a new active segment at `base_offset`.

        `base_offset` is at or above the log end offset.

        Raises:
            DiskFull: the disk is full, and the active segment is the same as before.
            LogDirectoryOffline: the disk failed.
        """
        self.check_ready()
        directory, old = self._directory, self._segments.active
        assert base_offset >= self.log_end_offset, "a segment begins after all records"
        assert base_offset > old.base_offset or old.size == 0, "only an empty one is replaced"
        # An empty segment whose index is full is replaced by a segment of the same name.
        has_other_name = base_offset != old.base_offset
        try:
            if has_other_name:
                old.on_become_inactive()
                self._producers.take_snapshot(base_offset)
            new = Segment.create(directory.storage, directory.path, base_offset, self._policy)
        except OSError as error:
            if has_other_name:
                self._remove_files(base_offset)
            raise directory.refuse("roll", error) from error
        self._segments.add(new)
        logger.info("%s: new segment at offset %d", directory.topic_partition, base_offset)
        self._flush.flush_in_background(self.log_end_offset)
        return new

    def _remove_files(self, base_offset: int) -> None:
        """Remove the files of a segment that could not be created."""
        file_system = self._directory.storage.file_system
        try:
            for kind in names.SEGMENT_KINDS:
                path = self._directory.file(names.file_name(base_offset, kind))
                if file_system.status(path) is not None:
                    file_system.remove(path)
        except OSError as error:
            raise self._directory.fail("roll", error) from error

    # -- truncation -----------------------------------------------------------------------------

    def truncate_to(self, offset: int, truncated: Truncated) -> None:
        """Remove the batch that contains `offset` and all later batches.

        The log end offset is then `offset`. The files are cut and flushed in the background. Then
        `truncated` is called.

        Raises:
            LogDamaged: the batches around the offset cannot be read.
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        assert self._segments.bases[0] <= offset < self.log_end_offset, "an offset in the log"
        self._flush.on_records_dropped()
        delay_ms = self._file_delete_delay_ms
        segments, producers = self._segments, self._producers
        try:
            surplus = [segment for segment in segments if segment.base_offset > offset]
            if surplus:
                segments.remove(surplus[::-1], delay_ms)
                bases = [segment.base_offset for segment in surplus]
                producers.remove_snapshots(bases, delay_ms)
            cuts = segments.active.truncate_to(offset)
            assert segments.active.base_offset <= offset, "the active segment has the end"
            segments.active.set_roll_policy(self._policy)
            self.log_end_offset = offset
            self._epochs.truncate_from_end(offset)
            segments.start_at(min(segments.log_start_offset, offset))
            producers.truncate_and_reload(
                segments.since(0), segments.log_start_offset, offset, delay_ms
            )
            self._flush.truncate(offset, cuts, truncated)
        except (OSError, DamagedFile) as error:
            raise self._directory.unreadable(error) from error

    def truncate_fully_and_start_at(
        self, offset: int, log_start_offset: int, truncated: Truncated
    ) -> None:
        """Remove all records. The next record gets `offset`.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        assert 0 <= log_start_offset <= offset, "an empty log ends where it may begin"
        self._flush.on_records_dropped()
        delay_ms = self._file_delete_delay_ms
        directory, producers = self._directory, self._producers

        def successor() -> Segment:
            return Segment.create(directory.storage, directory.path, offset, self._policy)

        try:
            producers.remove_snapshots(list(producers.snapshots), delay_ms)
            self._segments.restart(successor, delay_ms)
            self._segments.start_at(log_start_offset)
            self.log_end_offset = offset
            self._epochs.clear()
            producers.restart_at(offset)
            self._flush.truncate(offset, (), truncated)
        except OSError as error:
            raise directory.fail("truncate", error) from error
