"""The log of one partition: appends, reads, and the offsets that others go by.

    log start offset <= last stable offset <= high watermark <= log end offset

A log is a list of segments; the newest is active. Everything here runs on one thread.

The two functions that every request passes, `append_as_leader` and `read`, are written for the
usual case: one batch that is appended as it came, and a read that starts at one of the last
batches. What is unusual in any way goes to `appending` and `reading`, which do everything by the
book. The usual case relies on this:

- The 61 bytes of the header are unpacked once; `crc32c` over the rest proves that the payload is
  what the client sent, `has_plain_records` that it is made of records. What the topic wants
  beyond that (recompression, limits of age) is seen to in `validation`.
- Base offset and leader epoch are written into the receive buffer, and the buffer to the file in
  one call. If the call fails, the disk is full or the log directory offline, and nothing else
  has changed.
- `_recent` and `_older` remember the positions of the last batches of the active segment, by
  base offset, so that a consumer at the tail is served without a search.

Attributes without an underscore are for the modules of this room; from outside they are to be
read only, except `high_watermark`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from odradek.config.topic_config import TopicConfig
from odradek.env.file_range import FileRange
from odradek.log import appending, flushing, listing, reading, retention, rolling, truncation
from odradek.log.directory import LogDirectory
from odradek.log.errors import (
    DamagedFile,
    DiskFull,
    LogDamaged,
    LogDirectoryOffline,
    OffsetOutOfRange,
)
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.origin import AppendOrigin
from odradek.log.producer_state import NONE, ProducerState
from odradek.log.results import AppendInfo, FetchData, ProducerDescription, TimestampOffset
from odradek.log.segment import Segment
from odradek.log.storage import Storage
from odradek.log.transaction_index import AbortedTransaction
from odradek.log.validation import attributes_in_place
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from odradek.records.checksum import crc32c
from odradek.records.structure import has_plain_records

if TYPE_CHECKING:
    from odradek.log.loader import LoadedLog

_RECENT_MAX = 32
"""Batches of which the position is remembered: between this and twice as many."""
_ORIGINS = (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)
"""Who may append in place; first the one whose records some topics have walked."""

logger = logging.getLogger("odradek.log")

_unpack_front = Struct(">qi4xbIhiq").unpack_from
"""Base offset, length, magic, CRC, attributes, last offset delta, base timestamp."""
_unpack_back = Struct(">35xqqhii").unpack_from
"""Max timestamp, producer id and epoch, base sequence, record count."""
_pack_start = appending.BATCH_START.pack_into


class PartitionLog:
    """See the module. Made by `LogManager`."""

    __slots__ = (
        "_high_watermark",
        "_index_interval",
        "_needs_keys",
        "_older",
        "_pwrite",
        "_recent",
        "active",
        "attributes_in_place",
        "bases",
        "config",
        "directory",
        "first_dirty_offset",
        "first_unstable_offset",
        "flush_offset",
        "flushes",
        "generation",
        "in_place",
        "is_cleaning",
        "is_deleted",
        "is_flushed_before_ack",
        "is_new",
        "is_unsynced",
        "last_flush_ms",
        "leader_epoch",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "path",
        "producers",
        "recovery_point",
        "roll_size",
        "sealed_offset",
        "segments",
        "size_max",
        "snapshot_offset",
        "snapshots",
        "storage",
        "timestamp_limit",
        "topic_id",
        "topic_partition",
    )

    roll_size: int
    """A batch that makes the active segment larger than this goes to a new one."""
    flush_offset: int
    """After the record of this offset a flush is due."""
    is_flushed_before_ack: bool
    """Who appends waits for a flush (`LogManager.when_flushed`) before anybody is told."""

    def __init__(
        self,
        storage: Storage,
        directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: TopicConfig,
        loaded: LoadedLog,
    ) -> None:
        self.storage = storage
        self.directory = directory
        """The log directory (one of `log.dirs`) that the partition's directory lies in."""
        self.path = path
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments: list[Segment] = loaded.segments
        """Oldest first, never empty; `active` is the last one."""
        self.bases: list[int] = [segment.base_offset for segment in loaded.segments]
        self.active: Segment = loaded.segments[-1]
        self.log_start_offset: int = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        """The offset that the next record gets."""
        self.recovery_point = loaded.recovery_point
        """All before it survives a crash of the machine."""
        self.sealed_offset = loaded.sealed_offset
        """Segments before it survive it with their indexes."""
        self.leader_epochs: LeaderEpochs = loaded.leader_epochs
        self.leader_epoch = self.leader_epochs.latest
        self.producers: ProducerState | None = loaded.producers
        """None while no producer has numbered its batches."""
        self.snapshots: list[int] = loaded.snapshots
        """Offsets of the producer snapshots on disk, ascending."""
        self.snapshot_offset = loaded.snapshot_offset
        self.first_unstable_offset: int = NONE
        self._high_watermark: int = self.log_start_offset
        self.generation = 0
        """Goes up when records are dropped, so that a flush under way knows."""
        self.first_dirty_offset: int = NONE
        """All before it has been compacted; -1: nothing has (see `cleaner`)."""
        self.is_cleaning = False
        """Compaction copies old segments: they are to stay until it has ended."""
        self.is_deleted = False
        self.flushes = flushing.FlushOrder()
        self.is_new = loaded.is_new
        """Whether the name of the partition's directory may be lost in a crash."""
        self.is_unsynced = loaded.is_new
        """Whether names in it may be lost."""
        self.last_flush_ms = storage.clock.now_ms()
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._pwrite = storage.file_system.pwrite
        self.update_config(config)
        self.refresh_first_unstable_offset()

    # -- settings -----------------------------------------------------------------------------

    def update_config(self, config: TopicConfig) -> None:
        """Go by these settings from now on."""
        self.config = config
        walks = config.message_timestamp_before_max_ms < 2**62
        self._needs_keys = config.is_compacted
        self.in_place = () if config.is_log_append_time else _ORIGINS[walks:]
        self.attributes_in_place = attributes_in_place(config.compression_type)
        self.size_max = min(config.max_message_bytes, config.segment_bytes)
        self._index_interval = config.index_interval_bytes
        self.timestamp_limit = -1
        rolling.set_limits(self, self.active)
        flushing.set_flush_offset(self)

    # -- append -------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        verification_guard: int = 0,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append what a producer or coordinator sent; `records` is written to.

        `verification_guard` comes from `start_verification`; `transaction_version` is that of a
        marker's coordinator (KIP-1228).

        Raises:
            RecordsRefused: with the code, message and record errors for the answer.
            DiskFull, LogDirectoryOffline: the disk is full, or failed, now or before.
        """
        size = len(records)
        if origin not in self.in_place or size < HEADER_SIZE:
            return appending.append(
                self, records, leader_epoch, origin, verification_guard, transaction_version
            )
        base_offset, length, magic, crc, attributes, delta, base_timestamp = _unpack_front(records)
        max_timestamp, producer_id, epoch, sequence, count = _unpack_back(records)
        codec, time_span = attributes & CODEC_MASK, max_timestamp - base_timestamp
        entry = None
        is_transactional = attributes & TRANSACTIONAL_FLAG
        if producer_id >= 0 and self.producers is not None:
            entry = self.producers.continued(
                producer_id, epoch, sequence, is_transactional, verification_guard
            )
        if (
            length + LOG_OVERHEAD != size
            or size > self.size_max
            or magic != MAGIC
            or base_offset
            or attributes not in self.attributes_in_place
            or not 0 < count == delta + 1
            or max_timestamp > self.timestamp_limit
            or leader_epoch != self.leader_epoch
            or (entry is None and (producer_id >= 0 or is_transactional))
            or crc32c(memoryview(records)[ATTRIBUTES_POSITION:]) != crc
            or (
                origin is AppendOrigin.CLIENT
                and not has_plain_records(records, codec, count, time_span, self._needs_keys)
            )
        ):
            return appending.append(
                self, records, leader_epoch, origin, verification_guard, transaction_version
            )
        offset = self.log_end_offset
        last_offset = offset + delta
        segment = self.active
        if segment.size + size > self.roll_size or max_timestamp > segment.roll_timestamp:
            segment = rolling.roll_if_due(self, size, max_timestamp, offset, last_offset)
        try:
            _pack_start(records, 0, offset, length, leader_epoch)
        except TypeError:  # the caller's buffer is read-only
            records = bytearray(records)
            _pack_start(records, 0, offset, length, leader_epoch)
        self.write(segment, records, size, offset, last_offset, max_timestamp)
        if entry is not None:
            last_sequence = (sequence + delta) & SEQUENCE_MAX
            entry.add_batch(epoch, last_sequence, last_offset, delta, max_timestamp)
            if is_transactional and entry.transaction_first_offset < 0:
                appending.begin_transaction(self, entry, offset)
        return AppendInfo(offset, last_offset, self.log_start_offset)

    def write(
        self,
        segment: Segment,
        records: Buffer,
        size: int,
        offset: int,
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """Write one batch, with its final offsets, to the end of the active segment.

        Raises:
            DiskFull: nothing has changed.
            LogDirectoryOffline: the disk failed.
        """
        position = segment.size
        try:
            file = segment.file or segment.open_file()
            file.used = True
            if self._pwrite(file.descriptor, records, position) != size:
                appending.write_rest(self, file, records, position)
        except OSError as error:
            appending.take_back_offset(records)
            raise self.refuse("append to", error) from error
        if not position:
            rolling.begin(self, segment, max_timestamp)
        segment.size = position + size
        self.log_end_offset = last_offset + 1
        recent = self._recent
        if len(recent) >= _RECENT_MAX:
            self._older = recent
            self._recent = recent = {}
        recent[offset] = position
        if max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = last_offset
        if segment.bytes_since_index > self._index_interval:
            segment.bytes_since_index = size
            rolling.add_index_entries(self, segment, last_offset, position)
        else:
            segment.bytes_since_index += size
        if last_offset >= self.flush_offset:
            flushing.flush_in_background(self)

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendInfo | None:
        """Append batches as the leader gave them; None if none of them is new and whole.

        Batches of a leader epoch above `leader_epoch` end the payload (KAFKA-18723).

        Raises:
            RecordsRefused: CORRUPT_MESSAGE, or offsets that do not continue this log.
            LogDirectoryOffline: the disk failed.
        """
        return appending.append_given(self, records, leader_epoch, AppendOrigin.REPLICATION)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """A guard for the first batch of a transaction (KIP-890); 0 if it needs none.

        Raises:
            RecordsRefused: INVALID_PRODUCER_EPOCH.
        """
        now_ms = self.storage.clock.now_ms()
        return self.producer_state().start_verification(
            now_ms, producer_id, sequence, epoch, supports_epoch_bump
        )

    # -- read ---------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool = True,
        with_aborted: bool = False,
    ) -> FetchData | None:
        """Batches from the one that holds `offset` on, below offset `limit`.

        `limit` is the high watermark, the last stable offset or the log end offset. At most
        `max_bytes`, the last batch perhaps cut; with `whole_first` the first one is whole even
        if it is larger, without it there is no data then. None: there is nothing to send.

        Raises:
            OffsetOutOfRange: `offset` is before the log's start or after its end.
            LogDamaged: there is something else than batches in the file.
            LogDirectoryOffline: the disk failed.
        """
        position = self._recent.get(offset)
        if position is None:
            position = self._older.get(offset)
        segment = self.active
        if (
            position is None
            or limit != self.log_end_offset
            or segment.size - position > max_bytes
            or (with_aborted and (segment.aborted or segment.aborted is None))
        ):
            return reading.read(self, offset, max_bytes, limit, whole_first, with_aborted)
        file = segment.file
        if file is None:
            return reading.read(self, offset, max_bytes, limit, whole_first, with_aborted)
        file.used = True
        return FetchData(FileRange(file.descriptor, position, segment.size - position, file))

    def is_resident(self, file_range: FileRange) -> bool:
        """Whether sending the range would not wait for the disk."""
        return self.storage.file_system.is_resident(
            file_range.descriptor, file_range.position, file_range.length
        )

    def aborted_transactions(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions that have records at `offset` or after it, and begin below `upper`.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        return reading.aborted_transactions(self, offset, upper)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record with that time or a later one, or what a negative number stands for.

        -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest local,
        -5 latest in tiered storage, -6 earliest that tiered storage lacks. None: no such record.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        return listing.offset_for_timestamp(self, timestamp)

    # -- offsets ------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """All replicas in sync have the log up to here; consumers see no further."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self._high_watermark = offset
        producers = self.producers
        if producers is not None and producers.unreplicated and producers.on_high_watermark(offset):
            self.refresh_first_unstable_offset()

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended: where consumers of committed records stop."""
        unstable = self.first_unstable_offset
        if 0 <= unstable < self._high_watermark:
            return unstable
        return self._high_watermark

    def refresh_first_unstable_offset(self) -> None:
        """Transactions began or ended, or the log start offset moved."""
        producers = self.producers
        unstable = NONE if producers is None else producers.first_unstable_offset
        self.first_unstable_offset = max(unstable, self.log_start_offset) if unstable >= 0 else NONE

    def on_leader_epoch(self, epoch: int) -> None:
        """This replica leads from now on: the epoch begins at the log's end."""
        self.assign_epoch(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader epoch begins."""
        self.leader_epochs.assign(epoch, start_offset)
        self.leader_epoch = self.leader_epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch here that is not above `epoch`, and where it ends; (-1, -1) if none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def size(self) -> int:
        """Bytes of all segments' batches."""
        return sum(segment.size for segment in self.segments)

    def segment_of(self, offset: int) -> int:
        """The index in `segments` of the one that may hold the offset; -1 if it is before all."""
        return bisect_right(self.bases, offset) - 1

    # -- producers ----------------------------------------------------------------------------

    def producer_state(self) -> ProducerState:
        """The producers, made if there were none."""
        if self.producers is None:
            self.producers = ProducerState()
        return self.producers

    def active_producers(self) -> Sequence[ProducerDescription]:
        """What DescribeProducers tells."""
        return listing.active_producers(self)

    def expire_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        if self.producers is not None:
            self.producers.expire(self.storage.clock.now_ms(), self.storage.producer_expiration_ms)

    # -- shortening ---------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """The log starts at `offset` from now on; -1 is the high watermark. Returns the start.

        Raises:
            OffsetOutOfRange: above the high watermark, or negative.
        """
        if offset == -1:
            offset = self._high_watermark
        if not 0 <= offset <= self._high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition} cannot start at {offset}: "
                f"its high watermark is {self._high_watermark}"
            )
        retention.advance_log_start_offset(self, offset)
        return self.log_start_offset

    def delete_old_segments(self) -> int:
        """Delete what retention no longer keeps; the number of segments.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        return retention.delete_old_segments(self)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log so that it ends at `offset` or before; False if it did already.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop all records; the next one gets `offset`.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        truncation.truncate_fully(self, offset, log_start_offset)

    def forget_positions(self) -> None:
        """The remembered positions are not those of the active segment any more."""
        self._recent = {}
        self._older = {}

    # -- disk ---------------------------------------------------------------------------------

    def roll(self) -> None:
        """Begin a new segment at the log's end, unless the active one is empty.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        if self.active.size:
            rolling.roll(self, self.log_end_offset)

    def flush_work(self) -> flushing.FlushWork | None:
        """What makes all records up to now survive a crash; None if they do already.

        Call `run` of it in any thread, then `complete` on the loop's.

        Raises:
            DiskFull, LogDirectoryOffline: too many files are open, or the disk failed.
        """
        return flushing.flush_work(self, self.log_end_offset)

    def flush(self) -> None:
        """Flush on this thread.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        flushing.flush_now(self)

    def flush_in_background(self) -> None:
        """Begin a flush, unless one is under way."""
        flushing.flush_in_background(self)

    def close(self) -> None:
        """Write what is only in memory and let go of the files; the log is not used again.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        flushing.close(self)

    def go_offline(self) -> None:
        """The log directory has failed: serve nothing any more."""
        self.in_place = ()
        self.forget_positions()
        for segment in self.segments:
            segment.close_file()

    def fail(self, what: str, error: BaseException) -> LogDirectoryOffline:
        """The disk failed: the log directory goes offline; the exception to raise."""
        return self.directory.fail(f"could not {what} {self.topic_partition}", error)

    def refuse(self, what: str, error: BaseException) -> DiskFull | LogDirectoryOffline:
        """A write failed that can be taken back; the exception to raise."""
        return self.directory.refuse(f"could not {what} {self.topic_partition}", error)

    def unreadable(
        self, error: OSError | DamagedFile
    ) -> LogDamaged | DiskFull | LogDirectoryOffline:
        """A read failed: the device did, or what is on it is no log; the exception to raise."""
        if isinstance(error, OSError):
            return self.refuse("read", error)
        logger.error("%s is damaged: %s", self.topic_partition, error)
        return LogDamaged(f"{self.topic_partition}: {error}")

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic_partition}, offsets {self.log_start_offset}.."
            f"{self.log_end_offset}, {len(self.segments)} segments)"
        )
