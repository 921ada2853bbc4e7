"""Appends the records of producers and coordinators to a log, as its leader.

Every Produce request calls `append_as_leader`. The fast path in its first half appends batches that
need no conversion:

- The header of 61 bytes is unpacked once. `crc32c` checks that the batch is intact.
  `has_plain_records` checks that the payload consists of valid records.
- Base offset and leader epoch are written into the receive buffer. Then the buffer is written to
  the file in one call (`LogEnd.append`).

All other batches are validated (`validation`), with the checks in Apache Kafka's order: size,
checksum, header fields, records (only in batches of clients), segment size, producer. Then the
batch is written, and after that the state in memory is changed.

Batches that have their offsets already are appended by `GivenAppender`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from odradek.config.topic_config import TopicConfig
from odradek.log import validation
from odradek.log.errors import DiskFull, LogDirectoryOffline, LongValidation, RecordsRefused
from odradek.log.flush_state import FlushState, Truncated
from odradek.log.given_appender import GivenAppender
from odradek.log.given_batches import check_segment_size
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.loader import LoadedLog
from odradek.log.log_end import LogEnd
from odradek.log.log_segments import LogSegments
from odradek.log.origin import AppendOrigin
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_state import CompletedTransaction
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.results import AppendInfo
from odradek.log.validation import SHORT_BYTES_MAX, Accepted, Effort, fast_path_attributes
from odradek.model.errors import ErrorCode
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatch,
)
from odradek.records.builder import plain_batch
from odradek.records.checksum import crc32c
from odradek.records.compression import Codec
from odradek.records.control import EndOfTransaction
from odradek.records.errors import DecompressionLimit
from odradek.records.structure import has_plain_records

# A constant is read faster than an attribute of a class.
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_FULL: Final = Effort.FULL
_SHORT: Final = Effort.SHORT
_NONE: Final = Effort.NONE

_ANY_AGE_MS: Final = 2**62
"""With at least this `message.timestamp.before.max.ms`, a record may be of any age. Then the
timestamps of the records need not be checked one by one."""

_unpack_front: Final = Struct(">qi4xbIhiq").unpack_from
"""Base offset, length, magic, CRC, attributes, last offset delta, base timestamp."""
_unpack_back: Final = Struct(">35xqqhii").unpack_from
"""Max timestamp, producer id and epoch, base sequence, record count."""
_unpack_producer: Final = Struct(">35xqqh").unpack_from
"""Max timestamp, producer id, producer epoch."""


class LogAppender:
    """Appends to one log as its leader."""

    __slots__ = (
        "_config",
        "_directory",
        "_end",
        "_epochs",
        "_fast_path_attributes",
        "_fast_path_origins",
        "_flush",
        "_given",
        "_long_crc",
        "_needs_keys",
        "_producers",
        "_segments",
        "_size_max",
        "_timestamp_limit",
    )

    def __init__(
        self,
        end: LogEnd,
        given: GivenAppender,
        directory: PartitionDirectory,
        loaded: LoadedLog,
        flush: FlushState,
        config: TopicConfig,
    ) -> None:
        self._end = end
        self._given = given
        self._directory = directory
        self._segments: LogSegments = loaded.segments
        self._flush = flush
        self._producers: ProducerStateManager = loaded.producers
        self._epochs: LeaderEpochs = loaded.leader_epochs
        self._long_crc = -1
        """The checksum of the last batch that needed a long validation. A Produce request may try
        the same batch twice, on the fast path and then in the handler."""
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self._config = config
        self._needs_keys = config.is_compacted
        self._fast_path_attributes = fast_path_attributes(config)
        self._size_max = min(config.max_message_bytes, config.segment_bytes)
        self._timestamp_limit = -1
        """A batch with a later max timestamp may violate `message.timestamp.after.max.ms`. The
        clock is read only for such batches."""
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

    def no_fast_path_until(self, truncated: Truncated) -> Truncated:
        """Disable the fast path for a truncation. Return the callback for its end."""
        self._fast_path_origins = ()

        def ended(refusal: DiskFull | LogDirectoryOffline | None) -> None:
            self._find_fast_path_origins()
            truncated(refusal)

        return ended

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
        if origin in self._fast_path_origins and size >= HEADER_SIZE and accepted is None:
            base_offset, length, magic, crc, attributes, delta, base_time = _unpack_front(records)
            max_timestamp, producer_id, epoch, sequence, count = _unpack_back(records)
            entry = None
            is_transactional = attributes & TRANSACTIONAL_FLAG
            if producer_id >= 0:
                entry = self._producers.continued(
                    producer_id, epoch, sequence, is_transactional, verification_guard
                )
            if (
                length + LOG_OVERHEAD == size
                and size <= self._size_max
                and magic == MAGIC
                and not base_offset
                and attributes in self._fast_path_attributes
                and 0 < count == delta + 1
                and max_timestamp <= self._timestamp_limit
                and leader_epoch == self._epochs.latest
                and (entry is not None or (producer_id < 0 and not is_transactional))
                and crc32c(memoryview(records)[ATTRIBUTES_POSITION:]) == crc
                and (
                    origin is not _CLIENT
                    or effort is _NONE
                    or self._is_plain(
                        records, crc, attributes, count, max_timestamp - base_time, effort
                    )
                )
            ):
                offset = self._end.log_end_offset
                last_offset = offset + delta
                self._end.append(records, size, offset, last_offset, max_timestamp, leader_epoch)
                if entry is not None:
                    last_sequence = (sequence + delta) & SEQUENCE_MAX
                    entry.add_batch(epoch, last_sequence, last_offset, delta, max_timestamp)
                    if is_transactional and entry.transaction_first_offset < 0:
                        self._producers.begin_transaction(entry, offset)
                return AppendInfo(offset, last_offset, self._segments.log_start_offset)
        return self._append_checked(
            records,
            leader_epoch,
            origin,
            verification_guard,
            transaction_version,
            effort,
            accepted,
        )

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
        self._end.check_ready()
        if origin is AppendOrigin.RAFT_LEADER:
            info = self._given.append(records, leader_epoch, origin)
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
        offset = self._end.log_end_offset
        last_offset = offset + batch.last_offset_delta
        check_segment_size(batch.size, self._end.segment_bytes, directory.topic_partition)
        # As in Apache Kafka, the log rolls even if the producer check then rejects the batch.
        self._end.roll_if_due(batch.size, batch.max_timestamp, offset, last_offset)
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
        self._end.append(
            batch.data,
            batch.size,
            offset,
            last_offset,
            batch.max_timestamp,
            leader_epoch,
            completed,
        )
        if changes is not None:
            self._producers.update(changes, completed)
        return self._end.info(offset, last_offset, accepted.log_append_time_ms)

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
        offset = self._end.log_end_offset
        self._end.append(batch, len(batch), offset, offset, timestamp, leader_epoch)
        first_offset = entry.end_transaction(epoch, marker.coordinator_epoch, timestamp)
        producers.complete(CompletedTransaction(producer_id, first_offset, offset, aborted=False))
        return self._end.info(offset, offset)

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
        offset = self._end.log_end_offset
        last_offset = offset + len(records) - 1
        self._end.append(batch, size, offset, last_offset, timestamp, leader_epoch)
        return size

    # -- checks ---------------------------------------------------------------------------------

    def _find_duplicate(self, batch: RecordBatch, origin: AppendOrigin) -> AppendInfo | None:
        if origin is not _CLIENT:
            return None
        entry = self._producers.entries.get(batch.producer_id)
        known = None if entry is None else entry.find_duplicate(batch)
        if known is None:
            return None
        return self._end.info(known.first_offset, known.last_offset, known.timestamp, True)

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
