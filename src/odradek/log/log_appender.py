"""Appends batches to a log, rolls segments, and truncates the log.

`LogAppender._append_batch` appends one batch. It rolls if necessary, sets the base offset and the
leader epoch if this broker assigns them, writes the batch to the file, and advances the log end
offset. On a follower, `_append_run` writes consecutive batches in one call if they need no roll and
change no transaction.

Every Produce request calls `append_as_leader`. The fast path in its first half appends batches that
need no conversion:

- The header of 61 bytes is unpacked once. `crc32c` checks that the batch is intact.
  `has_plain_records` checks that the payload consists of valid records.
- Base offset and leader epoch are written into the receive buffer. Then the buffer is written to
  the file in one call. If the write fails, the state in memory is unchanged; the error is DiskFull,
  or the log directory goes offline.

All other batches are validated (`validation`), with the checks in Apache Kafka's order: size,
checksum, header fields, records (only in batches of clients), segment size, producer. Then the
batch is written, and after that the state in memory is changed.

After a truncation, nothing is appended until the truncation survives a crash. An append that
arrives earlier completes the truncation first, on the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import Struct
from typing import Final

from odradek.config.topic_config import TopicConfig
from odradek.log import names, validation
from odradek.log.errors import (
    DamagedFile,
    DiskFull,
    LogDirectoryOffline,
    LongValidation,
    RecordsRefused,
)
from odradek.log.flush_state import FlushState, Truncated
from odradek.log.given_batches import GivenBatch, check_segment_size, given_batches
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_segments import LogSegments
from odradek.log.origin import AppendOrigin
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_state import CompletedTransaction
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.roll_policy import RollPolicy
from odradek.log.segment import AppendedBatch, Segment
from odradek.log.transaction_index import AbortedTransaction
from odradek.log.validation import SHORT_BYTES_MAX, Accepted, Effort, fast_path_attributes
from odradek.model.errors import ErrorCode
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    RECORD_BATCH_HEADER,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatch,
)
from odradek.records.builder import plain_batch
from odradek.records.checksum import crc32c
from odradek.records.compression import Codec
from odradek.records.control import EndOfTransaction
from odradek.records.errors import CorruptBatch, DecompressionLimit, InvalidRecords
from odradek.records.structure import has_plain_records

logger = logging.getLogger("odradek.log")

# A constant is read faster than an attribute of a class.
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_FULL: Final = Effort.FULL
_SHORT: Final = Effort.SHORT
_NONE: Final = Effort.NONE

_ANY_AGE_MS: Final = 2**62
"""With at least this `message.timestamp.before.max.ms`, a record may be of any age. Then the
timestamps of the records need not be checked one by one."""
_GIVEN: Final = -1
"""In place of a leader epoch, this means that the batch has its offset and epoch already."""
_RUN_BYTES_MAX: Final = 1 << 20

_unpack_front: Final = Struct(">qi4xbIhiq").unpack_from
"""Base offset, length, magic, CRC, attributes, last offset delta, base timestamp."""
_unpack_back: Final = Struct(">35xqqhii").unpack_from
"""Max timestamp, producer id and epoch, base sequence, record count."""
_unpack_producer: Final = Struct(">35xqqh").unpack_from
"""Max timestamp, producer id, producer epoch."""
_unpack_header: Final = RECORD_BATCH_HEADER.unpack_from
_pack_start: Final = Struct(">qii").pack_into
"""Base offset, length, leader epoch. A leader writes these fields into a batch."""


class AppendInfo:
    """The offsets of the appended records. For a duplicate, the offsets of its first append."""

    __slots__ = (
        "base_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_start_offset: int,
        log_append_time_ms: int = -1,
        is_duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time_ms = log_append_time_ms
        """-1 if the records keep the timestamps of the producer (CreateTime)."""
        self.is_duplicate = is_duplicate

    def __repr__(self) -> str:
        return f"AppendInfo({self.base_offset}..{self.last_offset})"


class LogAppender:
    """Appends to and truncates one log. Only this class changes the log end offset."""

    __slots__ = (
        "_config",
        "_directory",
        "_epochs",
        "_fast_path_attributes",
        "_fast_path_origins",
        "_flush",
        "_long_crc",
        "_needs_keys",
        "_policy",
        "_producers",
        "_segment_bytes",
        "_segments",
        "_size_max",
        "_timestamp_limit",
        "log_end_offset",
    )

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: LogSegments,
        flush: FlushState,
        producers: ProducerStateManager,
        epochs: LeaderEpochs,
        config: TopicConfig,
        log_end_offset: int,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._flush = flush
        self._producers = producers
        self._epochs = epochs
        self.log_end_offset = log_end_offset
        """The offset that the next record gets."""
        self._long_crc = -1
        """The checksum of the last batch that needed a long validation. A Produce request may try
        the same batch twice, on the fast path and then in the handler."""
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self._config = config
        self._policy = RollPolicy(config)
        self._needs_keys = config.is_compacted
        self._fast_path_attributes = fast_path_attributes(config.compression_type)
        self._segment_bytes = config.segment_bytes
        self._size_max = min(config.max_message_bytes, config.segment_bytes)
        self._timestamp_limit = -1
        """A batch with a later max timestamp may violate `message.timestamp.after.max.ms`. The
        clock is read only for such batches."""
        self._segments.active.set_roll_policy(self._policy)
        self._find_fast_path_origins()

    def _find_fast_path_origins(self) -> None:
        """Determine the origins of batches that may use the fast path."""
        config = self._config
        self._fast_path_origins: tuple[AppendOrigin, ...] = ()
        if (
            config.is_log_append_time
            or self._flush.is_truncating
            or self._directory.log_directory.is_offline
        ):
            return
        if config.message_timestamp_before_max_ms >= _ANY_AGE_MS:
            self._fast_path_origins = (_CLIENT, _COORDINATOR)
        else:  # every record that a client sends must be checked
            self._fast_path_origins = (_COORDINATOR,)

    def disable_fast_path(self) -> None:
        """Disable the fast path. Then every append checks the state of the log directory."""
        self._fast_path_origins = ()

    # -- the leader's appends -------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = _CLIENT,
        *,
        verification_guard: int = 0,
        transaction_version: int = 0,
        effort: Effort = _FULL,
        accepted: Accepted | None = None,
    ) -> AppendInfo:
        """Append a payload from a producer or coordinator. `records` is modified.

        `verification_guard` is the result of `start_verification`. `transaction_version` is the
        version that the transaction coordinator uses for a marker (KIP-1228). `effort` limits the
        validation. If `accepted` is set, it is the result of the validation of `records`.

        Raises:
            RecordsRefused: the payload is rejected. The error has the code, the message and the
                record errors for the response.
            LongValidation: the effort is SHORT, and is not enough.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        size = len(records)
        if origin not in self._fast_path_origins or size < HEADER_SIZE or accepted is not None:
            return self._append_checked(
                records, leader_epoch, origin, verification_guard, transaction_version,
                effort, accepted,
            )  # fmt: skip
        base_offset, length, magic, crc, attributes, delta, base_timestamp = _unpack_front(records)
        max_timestamp, producer_id, epoch, sequence, count = _unpack_back(records)
        entry = None
        is_transactional = attributes & TRANSACTIONAL_FLAG
        if producer_id >= 0:
            entry = self._producers.continued(
                producer_id, epoch, sequence, is_transactional, verification_guard
            )
        if (
            length + LOG_OVERHEAD != size
            or size > self._size_max
            or magic != MAGIC
            or base_offset
            or attributes not in self._fast_path_attributes
            or not 0 < count == delta + 1
            or max_timestamp > self._timestamp_limit
            or leader_epoch != self._epochs.latest
            or (entry is None and (producer_id >= 0 or is_transactional))
            or crc32c(memoryview(records)[ATTRIBUTES_POSITION:]) != crc
            or (
                origin is _CLIENT
                and effort is not _NONE
                and not self._is_plain(
                    records, crc, attributes, count, max_timestamp - base_timestamp, effort
                )
            )
        ):
            return self._append_checked(
                records, leader_epoch, origin, verification_guard, transaction_version, effort, None
            )
        offset = self.log_end_offset
        last_offset = offset + delta
        self._append_batch(records, size, offset, last_offset, max_timestamp, leader_epoch)
        if entry is not None:
            last_sequence = (sequence + delta) & SEQUENCE_MAX
            entry.add_batch(epoch, last_sequence, last_offset, delta, max_timestamp)
            if is_transactional and entry.transaction_first_offset < 0:
                self._producers.begin_transaction(entry, offset)
        return AppendInfo(offset, last_offset, self._segments.log_start_offset)

    def is_simple(self, records: Buffer) -> bool:
        """Whether a client's batch needs no conversion, and its records are known to be plain.

        If so, the effort NONE is enough to append the batch; otherwise, the effort SHORT.

        Raises:
            LongValidation: the effort SHORT may not be enough.
        """
        if len(records) < HEADER_SIZE:
            return False
        _, _, _, crc, attributes, _, base_timestamp = _unpack_front(records)
        max_timestamp, _, _, _, count = _unpack_back(records)
        if (
            attributes in self._fast_path_attributes
            and self._is_in_time(max_timestamp)
            and self._is_plain(
                records, crc, attributes, count, max_timestamp - base_timestamp, _SHORT
            )
        ):
            return True
        if attributes & CODEC_MASK or len(records) > SHORT_BYTES_MAX:
            raise LongValidation
        return False

    def _is_in_time(self, max_timestamp: int) -> bool:
        """Whether the timestamps of a batch need not be checked one by one."""
        config = self._config
        if config.message_timestamp_before_max_ms < _ANY_AGE_MS:
            return False
        if max_timestamp <= self._timestamp_limit or config.is_log_append_time:
            return True
        return max_timestamp <= self._latest(self._directory.storage.clock.now_ms())

    def _latest(self, now_ms: int) -> int:
        """Return the latest timestamp that a record may have now."""
        self._timestamp_limit = now_ms + self._config.message_timestamp_after_max_ms
        return self._timestamp_limit

    def _is_plain(
        self,
        records: Buffer,
        crc: int,
        attributes: int,
        count: int,
        max_delta: int,
        effort: Effort,
    ) -> bool:
        """See `has_plain_records`."""
        if crc == self._long_crc and effort is _SHORT:
            raise LongValidation
        try:
            return has_plain_records(
                records, attributes & CODEC_MASK, count, max_delta, self._needs_keys
            )
        except DecompressionLimit:
            if effort is not _SHORT:
                return False
            self._long_crc = crc
            raise LongValidation from None

    def _append_checked(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin,
        verification_guard: int = 0,
        transaction_version: int = 0,
        effort: Effort = _FULL,
        accepted: Accepted | None = None,
    ) -> AppendInfo:
        """Append a payload as the leader, with all checks."""
        self._check_ready()
        if origin is AppendOrigin.RAFT_LEADER:
            info = self._append_given(records, leader_epoch, origin)
            if info is None:
                raise RecordsRefused(ErrorCode.INVALID_RECORD, "there is no batch to append")
            return info
        directory = self._directory
        now_ms = directory.storage.clock.now_ms()
        self._latest(now_ms)
        if accepted is None:
            accepted = validation.validate(
                records, origin, self._config, directory.topic_partition, now_ms, effort
            )
        batch = accepted.batch
        offset = self.log_end_offset
        last_offset = offset + batch.last_offset_delta
        check_segment_size(batch.size, self._segment_bytes, directory.topic_partition)
        # As in Apache Kafka, the log rolls even if the producer check then rejects the batch.
        self._roll_if_due(batch.size, batch.max_timestamp, offset, last_offset)
        changes = completed = None
        if batch.has_producer_id:
            duplicate = self._find_duplicate(batch, origin)
            if duplicate is not None:
                return duplicate
            self._check_verified(batch, verification_guard)
            changes = self._producers.prepare(batch.producer_id, origin, transaction_version)
            completed = changes.add(batch, offset)
        if leader_epoch != self._epochs.latest:
            self._epochs.assign(leader_epoch, offset)
        self._append_batch(
            batch.data,
            batch.size,
            offset,
            last_offset,
            batch.max_timestamp,
            leader_epoch,
            self._aborted(completed),
        )
        if changes is not None:
            self._producers.update(changes, completed)
        return self._info(offset, last_offset, accepted.log_append_time_ms)

    def append_marker(
        self,
        batch: bytearray,
        marker: EndOfTransaction,
        leader_epoch: int,
        transaction_version: int,
    ) -> AppendInfo:
        """Append the marker that ends a producer's transaction.

        `batch` is the result of `end_of_transaction_batch` for `marker`, and is modified. This
        broker has built the batch. Therefore only the epochs are checked if the marker commits a
        transaction that is open in this log.

        Raises:
            RecordsRefused: the producer or the coordinator has been fenced.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        timestamp, producer_id, epoch = _unpack_producer(batch)
        producers = self._producers
        entry = producers.entries.get(producer_id)
        if (
            not marker.committed
            or _COORDINATOR not in self._fast_path_origins
            or leader_epoch != self._epochs.latest
            or entry is None
            or entry.transaction_first_offset < 0
            or epoch < entry.epoch + (transaction_version >= 2)
            or marker.coordinator_epoch < entry.coordinator_epoch
            or producer_id in producers.verifications
        ):
            return self._append_checked(batch, leader_epoch, _COORDINATOR, 0, transaction_version)
        offset = self.log_end_offset
        self._append_batch(batch, len(batch), offset, offset, timestamp, leader_epoch)
        first_offset = entry.end_transaction(epoch, marker.coordinator_epoch, timestamp)
        producers.complete(CompletedTransaction(producer_id, first_offset, offset, aborted=False))
        return self._info(offset, offset)

    def append_own_records(
        self, timestamp: int, records: Sequence[tuple[bytes, bytes]], leader_epoch: int
    ) -> int:
        """Append keys and values of a coordinator as one batch. Return the size of the batch.

        The batch has no producer id.

        Raises:
            RecordsRefused: the batch is too large.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        batch = plain_batch(timestamp, records)
        size = len(batch)
        if (
            _COORDINATOR not in self._fast_path_origins
            or Codec.NONE not in self._fast_path_attributes
            or size > self._size_max
            or leader_epoch != self._epochs.latest
        ):
            self._append_checked(batch, leader_epoch, _COORDINATOR, 0, 0)
            return size
        offset = self.log_end_offset
        last_offset = offset + len(records) - 1
        self._append_batch(batch, size, offset, last_offset, timestamp, leader_epoch)
        return size

    def _info(
        self, offset: int, last_offset: int, append_time_ms: int = -1, is_duplicate: bool = False
    ) -> AppendInfo:
        start_offset = self._segments.log_start_offset
        return AppendInfo(offset, last_offset, start_offset, append_time_ms, is_duplicate)

    # -- checks ---------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        """Check that the disk has not failed, and wait for a running truncation.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier.
        """
        self._directory.check_online()
        self._flush.finish_truncation()

    def _find_duplicate(self, batch: RecordBatch, origin: AppendOrigin) -> AppendInfo | None:
        if origin is not _CLIENT:
            return None
        entry = self._producers.entries.get(batch.producer_id)
        known = None if entry is None else entry.find_duplicate(batch)
        if known is None:
            return None
        return self._info(known.first_offset, known.last_offset, known.timestamp, True)

    def _check_verified(self, batch: RecordBatch, guard: int) -> None:
        """Check that the coordinator has confirmed the transaction that the batch begins."""
        producers = self._producers
        if not batch.is_transactional or producers.has_ongoing(
            batch.producer_id, batch.producer_epoch
        ):
            return
        entry = producers.entries.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.epoch:
            raise RecordsRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} has epoch {batch.producer_epoch}; "
                f"{entry.epoch} was seen",
            )
        directory = self._directory
        if batch.is_control or not directory.storage.verify_transactions:
            return
        verification = producers.verifications.get(batch.producer_id)
        if guard == 0 or verification is None or verification.guard != guard:
            raise RecordsRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has no open transaction in "
                f"{directory.topic_partition}",
            )

    # -- batches with assigned offsets --------------------------------------------------------

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendInfo | None:
        """Append batches as the leader sent them. Return None if the payload has no complete batch.

        If a batch has a leader epoch above `leader_epoch`, this batch and the following ones are
        ignored (KAFKA-18723).

        Raises:
            RecordsRefused: a batch is damaged, or its offsets do not continue this log, and nothing
                was appended. Or a batch contradicts the state of its producer, and the batches
                before it may have been appended.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier. The first
                batches may have been appended. The log end offset is after these batches.
        """
        self._check_ready()
        return self._append_given(records, leader_epoch, AppendOrigin.REPLICATION)

    def _append_given(
        self, records: Buffer, leader_epoch: int, origin: AppendOrigin
    ) -> AppendInfo | None:
        view = memoryview(records)
        try:
            batches = list(
                given_batches(
                    view,
                    self.log_end_offset,
                    leader_epoch,
                    origin,
                    self._segment_bytes,
                    self._directory.topic_partition,
                )
            )
            if not batches:
                return None
            run: list[GivenBatch] = []
            for batch in batches:
                if batch.leader_epoch >= 0 and batch.leader_epoch != self._epochs.latest:
                    self._epochs.assign(batch.leader_epoch, batch.base_offset)
                if run and not self._may_join(run, batch):
                    self._append_run(view, run)
                    run = []
                if not run and not self._may_begin_run(batch):
                    self._append_one_given(view, batch, origin)
                else:
                    run.append(batch)
            if run:
                self._append_run(view, run)
        except CorruptBatch as error:
            raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        except InvalidRecords as error:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error)) from None
        return self._info(batches[0].base_offset, batches[-1].last_offset)

    def _may_begin_run(self, batch: GivenBatch) -> bool:
        """Return whether the batch needs no roll and changes no transaction."""
        segment = self._segments.active
        return (
            segment.size + batch.size <= self._segment_bytes
            and batch.max_timestamp <= segment.roll_timestamp
            and batch.last_offset <= segment.last_offset_max
            and (
                batch.producer_id < 0
                or self._producers.plain_entry(
                    batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.attributes
                )
                is not None
            )
        )

    def _may_join(self, run: list[GivenBatch], batch: GivenBatch) -> bool:
        run_bytes = run[-1].position + run[-1].size - run[0].position
        return (
            run_bytes + batch.size <= _RUN_BYTES_MAX
            and self._segments.active.size + run_bytes + batch.size <= self._segment_bytes
            and self._may_begin_run(batch)
        )

    def _append_run(self, view: memoryview, run: list[GivenBatch]) -> None:
        """Append several batches in one write."""
        begin, end = run[0].position, run[-1].position + run[-1].size
        batches = [
            AppendedBatch(each.size, each.base_offset, each.last_offset, each.max_timestamp)
            for each in run
        ]
        try:
            self._segments.active.append_batches(view[begin:end], end - begin, batches)
        except OSError as error:
            raise self._directory.refuse("append to", error) from error
        self._advance_end(run[-1].last_offset)
        for each in run:
            if each.producer_id >= 0:
                delta = each.last_offset - each.base_offset
                self._producers.entries[each.producer_id].add_batch(
                    each.producer_epoch,
                    (each.base_sequence + delta) & SEQUENCE_MAX,
                    each.last_offset,
                    delta,
                    each.max_timestamp,
                )

    def _append_one_given(self, view: memoryview, given: GivenBatch, origin: AppendOrigin) -> None:
        data = view[given.position : given.position + given.size]
        changes = completed = None
        if given.producer_id >= 0:
            changes = self._producers.prepare(given.producer_id, origin)
            completed = changes.add(RecordBatch(data), given.base_offset)
        self._append_batch(
            data,
            given.size,
            given.base_offset,
            given.last_offset,
            given.max_timestamp,
            _GIVEN,
            self._aborted(completed),
        )
        if changes is not None:
            self._producers.update(changes, completed)

    # -- the common part of all appends ---------------------------------------------------------

    def _append_batch(
        self,
        records: Buffer,
        size: int,
        offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        aborted: AbortedTransaction | None = None,
    ) -> None:
        """Append one batch. If the batch is an abort marker, `aborted` is its transaction.

        `offset` and `leader_epoch` are written into the batch, unless `leader_epoch` is `_GIVEN`.

        Raises:
            DiskFull: the disk is full, and nothing has changed.
            LogDirectoryOffline: the disk failed.
        """
        segment = self._segments.active
        if (
            segment.size + size > self._segment_bytes
            or max_timestamp > segment.roll_timestamp
            or last_offset > segment.last_offset_max
        ):
            segment = self._roll_if_due(size, max_timestamp, offset, last_offset)
        if leader_epoch >= 0:
            try:
                _pack_start(records, 0, offset, size - LOG_OVERHEAD, leader_epoch)
            except TypeError:  # the caller's buffer is read-only
                records = bytearray(records)
                _pack_start(records, 0, offset, size - LOG_OVERHEAD, leader_epoch)
        try:
            if aborted is not None:
                segment.note_aborted(aborted)
                self._directory.on_names_changed()
            segment.append(records, size, offset, last_offset, max_timestamp)
        except OSError as error:
            raise self._not_appended(segment, records, leader_epoch, aborted, error) from error
        self.log_end_offset = last_offset + 1
        if last_offset >= self._flush.due_offset:
            self._flush.flush_in_background(last_offset + 1)

    def _advance_end(self, last_offset: int) -> None:
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

    def _aborted(self, completed: CompletedTransaction | None) -> AbortedTransaction | None:
        """Return the transaction index entry for a marker that will be appended.

        Return None if the marker does not abort a transaction. The entry is written before the
        marker, so that a full disk cannot leave a marker without an entry. If the marker cannot be
        written, the entry is removed. After a crash, recovery removes an entry without a marker.
        """
        if completed is None or not completed.aborted:
            return None
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self._producers.last_stable_offset_after(completed),
        )

    # -- rolling --------------------------------------------------------------------------------

    def _roll_if_due(
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
        self._check_ready()
        directory, old = self._directory, self._segments.active
        assert base_offset >= self.log_end_offset
        assert base_offset > old.base_offset or old.size == 0
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
        self._flush.on_records_dropped()
        delay_ms = self._config.file_delete_delay_ms
        segments, producers = self._segments, self._producers
        try:
            surplus = [segment for segment in segments if segment.base_offset > offset]
            if surplus:
                segments.remove(surplus[::-1], delay_ms)
                bases = [segment.base_offset for segment in surplus]
                producers.remove_snapshots(bases, delay_ms)
            cuts = segments.active.truncate_to(offset)
            segments.active.set_roll_policy(self._policy)
            self.log_end_offset = offset
            self._epochs.truncate_from_end(offset)
            segments.start_at(min(segments.log_start_offset, offset))
            producers.truncate_and_reload(
                segments.since(0), segments.log_start_offset, offset, delay_ms
            )
            self._flush.truncate(offset, cuts, self._no_fast_path_until(truncated))
        except (OSError, DamagedFile) as error:
            raise self._directory.unreadable(error) from error

    def truncate_fully_and_start_at(
        self, offset: int, log_start_offset: int, truncated: Truncated
    ) -> None:
        """Remove all records. The next record gets `offset`.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        self._flush.on_records_dropped()
        delay_ms = self._config.file_delete_delay_ms
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
            self._flush.truncate(offset, (), self._no_fast_path_until(truncated))
        except OSError as error:
            raise directory.fail("truncate", error) from error

    def _no_fast_path_until(self, truncated: Truncated) -> Truncated:
        """Disable the fast path until the truncation has ended. Return the callback for its end."""
        self._fast_path_origins = ()

        def ended(refusal: DiskFull | LogDirectoryOffline | None) -> None:
            self._find_fast_path_origins()
            truncated(refusal)

        return ended
