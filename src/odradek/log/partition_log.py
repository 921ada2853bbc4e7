"""The log of one partition (`UnifiedLog` in Apache Kafka).

    log start offset <= last stable offset <= high watermark <= log end offset

A log consists of these parts. The fields of a part are written only by the part itself:

- `segments` (`LogSegments`): the files, oldest first, and the log start offset.
- `flush_state` (`FlushState`): what survives a crash, and the flushes.
- `producers` (`ProducerStateManager`): sequence numbers and transactions.
- `leader_epochs` (`LeaderEpochs`): where each epoch begins.
- `cleaning` (`CleaningState`): how far the log is compacted.
- `end` (`LogEnd`): the log end offset, and what changes it: appends, rolls and truncations.
- `appender` (`LogAppender`), `given_appender` (`GivenAppender`): checks of what is appended.
- `partition_directory` (`PartitionDirectory`): paths, and failures of the disk.

`PartitionLog` itself keeps the high watermark and the settings. All methods are called on the event
loop's thread. Only the work of a flush or a truncation (`FlushWork.run`) and the work that is
submitted to the executor (`Storage.background`) run in other threads.

Two methods must be fast, because every request needs one of them. Produce requests use
`LogAppender.append_as_leader` directly. Fetch requests use `read`. The active segment stores the
positions of its newest batches. A read usually needs no search if it begins at one of these
batches, if it ends at one of them or at the log end offset, and if all data in between fits into
the response. All other reads search the indexes (`reading`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.config.topic_config import TopicConfig
from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.log import reading, retention, time_search
from odradek.log.cleaning_state import CleaningState
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile, DiskFull, LogDirectoryOffline, OffsetOutOfRange
from odradek.log.flush_state import FlushState, FlushWork, Truncated
from odradek.log.given_appender import GivenAppender
from odradek.log.loader import LoadedLog
from odradek.log.log_appender import LogAppender
from odradek.log.log_end import LogEnd
from odradek.log.origin import AppendOrigin
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.results import (
    AppendInfo,
    FetchData,
    ProducerDescription,
    TimestampOffset,
    new_fetch_data,
)
from odradek.log.segment import Segment
from odradek.log.storage import Storage
from odradek.log.time_search import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST
from odradek.records.batch import NO_TIMESTAMP, Buffer
from odradek.records.segment_files import AbortedTransaction

logger = logging.getLogger("odradek.log")


def _nobody_waits(_refusal: DiskFull | LogDirectoryOffline | None) -> None:
    """Do nothing. This callback is for callers that do not wait for a truncation."""


class PartitionLog:
    """The log of one partition. `LogManager` creates the logs."""

    __slots__ = (
        "_high_watermark",
        "appender",
        "cleaning",
        "config",
        "end",
        "flush_state",
        "given_appender",
        "is_flushed_before_ack",
        "leader_epochs",
        "partition_directory",
        "producers",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        directory: PartitionDirectory,
        topic_id: bytes | None,
        config: TopicConfig,
        loaded: LoadedLog,
    ) -> None:
        self.partition_directory = directory
        self.topic_partition = directory.topic_partition
        self.topic_id = topic_id
        self.segments = loaded.segments
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.flush_state = FlushState(
            directory,
            loaded.segments,
            loaded.leader_epochs,
            loaded.producers,
            recovery_point=loaded.recovery_point,
            index_recovery_point=loaded.index_recovery_point,
        )
        self.cleaning = CleaningState()
        self._high_watermark = loaded.segments.log_start_offset
        self.end = LogEnd(directory, loaded, self.flush_state, config)
        self.given_appender = GivenAppender(
            self.end, loaded.producers, loaded.leader_epochs, directory.topic_partition
        )
        self.appender = LogAppender(
            self.end, self.given_appender, directory, loaded, self.flush_state, config
        )
        self._set_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self.end.update_config(config)
        self.appender.update_config(config)
        self._set_config(config)

    def _set_config(self, config: TopicConfig) -> None:
        self.config = config
        self.is_flushed_before_ack = config.flush_messages == 1
        """Whether `flush.messages` is 1. If so, appended records are committed only after they were
        flushed (`LogManager.when_flushed`)."""
        self.flush_state.set_interval(config.flush_messages)

    def set_topic_id(self, topic_id: bytes) -> None:
        """Set the topic id. The caller has written it to the partition's directory."""
        self.topic_id = topic_id
        self.partition_directory.on_names_changed()

    # -- append ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        transaction_version: int = 0,
        verification_guard: int = 0,
    ) -> AppendInfo:
        """See `LogAppender.append_as_leader`."""
        return self.appender.append_as_leader(
            records,
            leader_epoch,
            origin,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendInfo | None:
        """See `GivenAppender.append_as_follower`."""
        return self.given_appender.append_as_follower(records, leader_epoch)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """Return a guard for the first batch of a transaction (KIP-890); 0 if none is needed.

        Raises:
            RecordsRefused: INVALID_PRODUCER_EPOCH.
        """
        now_ms = self.storage.clock.now_ms()
        return self.producers.start_verification(
            now_ms, producer_id, sequence, epoch, supports_epoch_bump
        )

    # -- read -----------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool = True,
        with_aborted: bool = False,
        files: FileSystem | None = None,
    ) -> FetchData | None:
        """Return the batches from the batch that contains `offset` up to the offset `limit`.

        `limit` is the high watermark, the last stable offset or the log end offset. The result has
        at most `max_bytes`, and the last batch may be incomplete. If the first batch is larger than
        `max_bytes`, return this batch if `whole_first` is true, else None. Return None if there is
        no batch to return. `files` is the file system that searches use, for example
        `Storage.non_blocking`.

        Raises:
            OffsetOutOfRange: `offset` is before the log start offset or after the log end offset.
            LogDamaged: the file does not consist of valid batches.
            LogDirectoryOffline: the disk failed.
            ReadWouldBlock: `files` would have to wait for the device.
        """
        segment = self.segments.active
        position = segment.positions.get(offset)
        if position is None:
            position = segment.older_positions.get(offset)
            if position is None:
                return self._search(offset, max_bytes, limit, whole_first, with_aborted, files)
        length = segment.size - position
        if limit != self.end.log_end_offset:
            end = segment.position_of(limit)
            length = -1 if end is None else end - position
        file = segment.file
        if (
            not 0 < length <= max_bytes
            or file is None
            or (with_aborted and (segment.aborted or segment.aborted is None))
        ):
            return self._search(offset, max_bytes, limit, whole_first, with_aborted, files)
        return new_fetch_data(FetchData, (FileRange(file.descriptor, position, length, file), ()))

    def _search(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool,
        with_aborted: bool,
        files: FileSystem | None,
    ) -> FetchData | None:
        self.partition_directory.check_online()
        end_offset = self.end.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} holds the offsets {self.log_start_offset} to "
                f"{end_offset}, not {offset}"
            )
        if offset >= limit:
            return None
        try:
            return reading.read(
                self.segments,
                offset,
                max_bytes,
                limit,
                end_offset,
                whole_first,
                with_aborted,
                files or self.storage.file_system,
            )
        except (OSError, DamagedFile) as error:
            raise self.partition_directory.unreadable(error) from error

    def aborted_transactions(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """Return aborted transactions with records at or above `offset` that begin below `upper`.

        Raises:
            LogDamaged: an index is damaged.
            LogDirectoryOffline: the disk failed.
        """
        self.partition_directory.check_online()
        first = max(0, self.segments.floor(offset))
        files = self.storage.file_system
        try:
            return reading.collect_aborted(self.segments, first, offset, upper, files)
        except (OSError, DamagedFile) as error:
            raise self.partition_directory.unreadable(error) from error

    def offset_for_timestamp(
        self, timestamp: int, files: FileSystem | None = None
    ) -> TimestampOffset | None:
        """Return the first record with this timestamp or a later one; None if there is none.

        Negative timestamps have the special meanings of ListOffsets: -1 is the log end offset, -2
        the log start offset, -3 the record with the largest timestamp, -4 the earliest local
        offset, -5 the latest offset in tiered storage, and -6 the earliest offset that is not in
        tiered storage. `files` is the file system that searches use.

        Raises:
            LogDamaged: a batch that must be read is damaged.
            LogDirectoryOffline: the disk failed.
            ReadWouldBlock: `files` would have to wait for the device.
        """
        self.partition_directory.check_online()
        start, epochs = self.log_start_offset, self.leader_epochs
        if timestamp == LATEST:
            return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, epochs.latest)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimestampOffset(NO_TIMESTAMP, start, epochs.epoch_for(start))
        if timestamp in (time_search.LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return TimestampOffset(NO_TIMESTAMP, -1, -1)  # nothing is in tiered storage
        files = files or self.storage.file_system
        try:
            return time_search.find_by_time(self.segments, timestamp, start, files)
        except (OSError, DamagedFile) as error:
            raise self.partition_directory.unreadable(error) from error

    # -- offsets --------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.segments.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.end.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The high watermark. All in-sync replicas have the records below this offset.

        Its value is always between the log start offset and the log end offset.
        """
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self.end.log_end_offset:
            offset = self.end.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self._high_watermark = offset
        if self.producers.unreplicated:
            self.producers.on_high_watermark(offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, at most to the log end offset. Return whether it changed."""
        if offset > self.end.log_end_offset:
            offset = self.end.log_end_offset
        if offset <= self._high_watermark:
            return False
        self._high_watermark = offset
        if self.producers.unreplicated:
            self.producers.on_high_watermark(offset)
        return True

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset. All transactions that began below this offset have ended."""
        unstable = self.producers.first_unstable_offset
        if 0 <= unstable < self._high_watermark:
            return max(unstable, self.log_start_offset)
        return self._high_watermark

    @property
    def recovery_point(self) -> int:
        """The recovery point. All records below this offset survive a crash of the machine."""
        return self.flush_state.recovery_point

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch; -1 if there is none."""
        return self.leader_epochs.latest

    def on_leader_epoch(self, epoch: int) -> None:
        """Record that this replica became the leader. The epoch begins at the log end offset."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """See `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return self.segments.size

    @property
    def active_segment(self) -> Segment:
        """The segment that appends go to."""
        return self.segments.active

    def active_producers(self) -> Sequence[ProducerDescription]:
        """Return the active producers for a DescribeProducers response."""
        return self.producers.active_producers()

    # -- the beginning of the log ---------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset to `offset` (-1: the high watermark) and return its value.

        Raises:
            OffsetOutOfRange: `offset` is above the high watermark, or is another negative number.
        """
        if offset == -1:
            offset = self._high_watermark
        if not 0 <= offset <= self._high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition} cannot start at {offset}: "
                f"its high watermark is {self._high_watermark}"
            )
        self._advance_log_start_offset(offset)
        return self.log_start_offset

    def _advance_log_start_offset(self, offset: int) -> None:
        """Raise the log start offset. `delete_old_segments` deletes the segments below it later."""
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset, "a log begins within its records"
        self.segments.start_at(offset)
        self._high_watermark = max(self._high_watermark, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_high_watermark(offset)
        assert self.log_start_offset <= self._high_watermark <= self.log_end_offset

    def delete_old_segments(self) -> int:
        """Delete the segments that retention does not keep; return their number.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        self.partition_directory.check_online()
        if self.cleaning.is_under_way:
            return 0  # the next round deletes the segments
        segments, config = self.segments, self.config
        now_ms = self.storage.clock.now_ms()
        mark, end = self._high_watermark, self.log_end_offset
        try:
            found = retention.surplus(segments, config, self.log_start_offset, now_ms, mark, end)
            return sum(self._delete(each, why) for each, why in found)
        except OSError as error:
            raise self.partition_directory.refuse("delete segments of", error) from error

    def _delete(self, segments: list[Segment], why: str) -> int:
        if not segments:
            return 0
        if segments[-1] is self.segments.active:
            try:
                self.end.roll(self.log_end_offset)
            except DiskFull:
                segments.pop()  # deleted in the next round, after other deletions freed space
        if not segments:
            return 0
        self._advance_log_start_offset(self.segments.bases[len(segments)])
        for segment in segments:
            logger.info("%s: deleting %r, %s", self.topic_partition, segment, why)
        delay_ms = self.config.file_delete_delay_ms
        self.segments.remove(segments, delay_ms)
        self.producers.remove_snapshots([each.base_offset for each in segments], delay_ms)
        return len(segments)

    def replace_segments(self, old_bases: Sequence[int], size: int) -> None:
        """Replace segments by a cleaned segment of `size` bytes (`LogSegments.replace`).

        Raises:
            OSError: the device failed.
        """
        delay_ms = self.config.file_delete_delay_ms
        new = self.segments.replace(old_bases, size, delay_ms)
        self.producers.remove_snapshots(old_bases[1:], delay_ms)
        logger.debug("%s: %r replaces %d segments", self.topic_partition, new, len(old_bases))

    def expire_producers(self) -> None:
        """Remove producers that have been idle for `producer.id.expiration.ms`."""
        self.producers.expire(self.storage.clock.now_ms(), self.storage.producer_expiration_ms)

    # -- the end of the log ---------------------------------------------------------------------

    def truncate_to(self, offset: int, truncated: Truncated = _nobody_waits) -> bool:
        """Truncate the log to `offset`. Return False if the log end offset is not above `offset`.

        The removed records cannot be read any more. The files are truncated and flushed in the
        background. Then `truncated` is called on the event loop's thread. An append that arrives
        earlier completes the truncation first.

        Raises:
            LogDamaged: the batches around the offset cannot be read.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        self.partition_directory.check_online()
        assert offset >= 0
        end = self.log_end_offset
        if offset >= end:
            self.leader_epochs.truncate_from_end(end)
            truncated(None)
            return False
        if offset < self.segments.bases[0]:
            self.truncate_fully_and_start_at(offset, truncated=truncated)
            return True
        if offset < self._high_watermark:
            logger.warning(
                "%s is truncated to offset %d, below its high watermark %d",
                self.topic_partition,
                offset,
                self._high_watermark,
            )
        self.flush_state.finish_truncation()
        self.end.truncate_to(offset, self.appender.no_fast_path_until(truncated))
        self.cleaning.truncated_to(offset)
        self.high_watermark = min(self._high_watermark, offset)
        assert self.log_start_offset <= self._high_watermark <= self.log_end_offset
        return True

    def truncate_fully_and_start_at(
        self,
        offset: int,
        log_start_offset: int | None = None,
        truncated: Truncated = _nobody_waits,
    ) -> None:
        """Remove all records. The next record gets `offset`. `truncated`: see `truncate_to`.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        self.partition_directory.check_online()
        logger.info(
            "%s: all records are dropped; the next offset is %d", self.topic_partition, offset
        )
        self.flush_state.finish_truncation()
        start = offset if log_start_offset is None else log_start_offset
        self.end.truncate_fully_and_start_at(
            offset, start, self.appender.no_fast_path_until(truncated)
        )
        self.cleaning.truncated_to(offset)
        self._high_watermark = offset
        assert self.log_start_offset <= self._high_watermark <= self.log_end_offset

    def roll(self) -> None:
        """Begin a new segment at the log end offset, unless the active segment is empty.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        if self.segments.active.size:
            self.end.roll(self.log_end_offset)

    # -- disk -----------------------------------------------------------------------------------

    @property
    def directory(self) -> LogDirectory:
        """The log directory (one of `log.dirs`) that contains the partition's directory."""
        return self.partition_directory.log_directory

    @property
    def storage(self) -> Storage:
        """The resources that all logs of the node share."""
        return self.partition_directory.storage

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self.partition_directory.path

    @property
    def is_deleted(self) -> bool:
        """Whether the log is deleted. Its directory gets another name, and may be removed."""
        return self.partition_directory.is_deleted

    def flush_work(self) -> FlushWork | None:
        """Return a flush of all current records; None if they are flushed already.

        Raises:
            DiskFull, LogDirectoryOffline: too many files are open, or the disk failed.
        """
        return self.flush_state.flush_work(self.log_end_offset)

    def last_flush_work(self) -> FlushWork | None:
        """Write data that is only in memory, and return the last flush before the log is closed.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        return self.flush_state.last_work(self.log_end_offset)

    def flush(self) -> None:
        """Flush the log on this thread.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        self.flush_state.flush(self.log_end_offset)

    def flush_in_background(self) -> None:
        """Begin a flush, unless one is under way."""
        self.flush_state.flush_in_background(self.log_end_offset)

    def close(self) -> None:
        """Flush the log and close its files. The log must not be used afterwards.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        self.flush_state.close(self.log_end_offset)
        self.segments.close_files()

    def go_offline(self) -> None:
        """Reject all further calls, because the log directory has failed."""
        self.appender.disable_fast_path()
        self.segments.active.forget_positions()
        self.segments.close_files()

    def on_deleted(self) -> None:
        """Close the files, because the log is being deleted. Do not use the log afterwards."""
        self.partition_directory.on_deleted()
        self.go_offline()

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic_partition}, offsets {self.log_start_offset}.."
            f"{self.log_end_offset}, {len(self.segments)} segments)"
        )
