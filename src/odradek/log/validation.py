"""Validates a producer's batch on the leader, and converts it if necessary (`LogValidator`).

Every payload must have these properties:

- It consists of one batch of format 2.
- The batch has at most `max.message.bytes`.
- The checksum is correct.

The batch of a client must also have these properties:

- The base offset is 0, and the record count matches the offsets.
- It has no control records.
- It has a sequence number if it has a producer id.
- Each record is well-formed. It has a key if the topic is compacted.
- The timestamp of each record is within `message.timestamp.before.max.ms` and
  `message.timestamp.after.max.ms`, unless the topic uses append time.

Most batches pass the fast check of `odradek.records.structure`. All others are read record by
record, so that the response can name the invalid records. See
docs/decisions/log-record-validation.md.

A batch is changed and gets a new checksum in these cases:

- The topic uses append time or another codec.
- The header of the batch has the wrong timestamp type or the wrong max timestamp.
- The offset deltas of the records are not 0, 1, 2 and so on. (But if the records are compressed,
  and the codec stays the same, such a batch is rejected.)

With `Effort.SHORT`, `validate` takes about a millisecond at most: for batches that need more it raises
LongValidation. Such a batch is validated on another thread (docs/decisions/log-long-validation.md).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from odradek.config.topic_config import TopicConfig
from odradek.log.errors import LongValidation, RecordsRefused, Rejection
from odradek.log.origin import AppendOrigin
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LENGTH_POSITION,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    SIZE,
    TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatch,
)
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec, codec_named, compress, decompress
from odradek.records.errors import CorruptBatch, DecompressionLimit, InvalidRecords
from odradek.records.record import iterate_records
from odradek.records.skim import RECORD_BYTES_MAX, skim_records
from odradek.records.structure import AT_ONCE_MAX, has_plain_records

DECOMPRESSED_MAX = 16 << 20
"""The decompressed records of a batch may have this many bytes, or `DECOMPRESSED_RATIO` times the
size of the batch if that is more."""
DECOMPRESSED_RATIO = 100
SHORT_BYTES_MAX: Final = 1 << 16
"""The event loop reads or compresses the records of a batch one by one only if they take at most as
many bytes."""
WHOLE_BYTES_MAX: Final = 4 << 20
"""On another thread, larger records are decompressed in pieces, which needs less memory."""
_WHOLE_RECORDS_MAX: Final = 1 << 16
"""On another thread, batches with more records are read in pieces. Compiled code that checks a whole
batch does not release the interpreter, and delays the event loop."""
_NEVER = 2**62
_ERRORS_SHOWN = 3


class Effort(Enum):
    """How long the event loop may be occupied with the validation of a batch."""

    FULL = "full"
    """As long as it takes."""
    SHORT = "short"
    """About a millisecond. If more is necessary, LongValidation is raised."""
    NONE = "none"
    """The batch is known to be simple (`LogAppender.is_simple`): its records are not read one by one."""


class Accepted(NamedTuple):
    """A batch that may be appended. `log_append_time_ms` is -1 if the topic uses CreateTime."""

    batch: RecordBatch
    log_append_time_ms: int


class _Topic(NamedTuple):
    """The topic settings and limits that a batch is checked against."""

    config: TopicConfig
    partition: TopicPartition
    now_ms: int
    effort: Effort

    @property
    def earliest(self) -> int:
        """The earliest timestamp that a record may have."""
        return self.now_ms - self.config.message_timestamp_before_max_ms

    @property
    def latest(self) -> int:
        """The latest timestamp that a record may have."""
        return self.now_ms + self.config.message_timestamp_after_max_ms


class _InvalidFormat(InvalidRecords):
    """The batch has a format that is no longer supported."""


class _InvalidClaim(InvalidRecords):
    """The offsets or the sequence number of the batch are impossible."""


def validate(
    records: Buffer,
    origin: AppendOrigin,
    config: TopicConfig,
    partition: TopicPartition,
    now_ms: int,
    effort: Effort = Effort.FULL,
) -> Accepted:
    """Check a payload, and convert it to the form that the topic's settings require.

    Only this function's arguments are used, so it may be called on any thread.

    Raises:
        RecordsRefused: the payload is invalid. The error has the same error code as in Kafka.
        LongValidation: the effort is SHORT, and is not enough.
    """
    try:
        topic = _Topic(config, partition, now_ms, effort)
        batch = _only_batch(topic, records, origin)
        if origin is AppendOrigin.CLIENT:
            _check_claims(batch)
        return _accept(topic, batch, origin)
    except CorruptBatch as error:
        rejection = Rejection.CHECKSUM
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error), (), rejection) from None
    except _InvalidFormat as error:
        rejection = Rejection.FORMAT
        raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error), (), rejection) from None
    except _InvalidClaim as error:
        rejection = Rejection.OFFSET_OR_SEQUENCE
        raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error), (), rejection) from None
    except InvalidRecords as error:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error)) from None


def _only_batch(topic: _Topic, records: Buffer, origin: AppendOrigin) -> RecordBatch:
    size = _next_batch_size(records)
    if size is None:
        raise InvalidRecords("the payload has no complete record batch")
    if records[MAGIC_POSITION] != MAGIC:
        raise _InvalidFormat(
            f"record batches of format {records[MAGIC_POSITION]} are no longer supported"
        )
    if _next_batch_size(memoryview(records)[size:]) is not None:
        raise InvalidRecords("the payload has more than one record batch")
    batch = RecordBatch(records)
    if origin is AppendOrigin.CLIENT and batch.base_offset != 0:
        raise _InvalidClaim(f"the base offset of a batch has to be 0, not {batch.base_offset}")
    _check_size(topic, batch)
    batch.check()
    return batch


def _next_batch_size(records: Buffer) -> int | None:
    """Return the size of the first batch; None if it is incomplete."""
    if len(records) < LOG_OVERHEAD:
        return None
    size: int = SIZE.unpack_from(records, LENGTH_POSITION)[0] + LOG_OVERHEAD
    if size < LEGACY_SIZE_MIN:
        raise CorruptBatch(f"a batch says that it has {size} bytes")
    if len(records) <= MAGIC_POSITION:
        return None
    if records[MAGIC_POSITION] > MAGIC:
        raise CorruptBatch(f"there is no record batch of format {records[MAGIC_POSITION]}")
    return size if size <= len(records) else None


def _check_size(topic: _Topic, batch: RecordBatch) -> None:
    if batch.size > topic.config.max_message_bytes:
        raise RecordsRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes is above max.message.bytes of "
            f"{topic.partition}, {topic.config.max_message_bytes}",
        )


def _check_claims(batch: RecordBatch) -> None:
    delta, count = batch.last_offset_delta, batch.count
    if delta < 0:
        raise _InvalidClaim(f"a batch cannot end {-delta} before its base offset")
    if count <= 0:
        raise _InvalidClaim(f"a batch cannot count {count} records")
    if delta + 1 != count:
        raise _InvalidClaim(f"a batch of {count} records cannot span {delta + 1} offsets")
    if batch.is_control:
        raise InvalidRecords("clients must not write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _InvalidClaim(
            f"producer {batch.producer_id} sent sequence number {batch.base_sequence}"
        )


def _accept(topic: _Topic, batch: RecordBatch, origin: AppendOrigin) -> Accepted:
    config = topic.config
    is_client = origin is AppendOrigin.CLIENT
    source = batch.codec
    target = _target_codec(config.compression_type, batch)
    if source > Codec.ZSTD:
        raise InvalidRecords(f"there is no compression codec {source}")
    if is_client:
        _check_time_type(topic, batch)
    in_offset_order = True
    max_timestamp = batch.max_timestamp
    if is_client and not _passes_fast_check(topic, batch):
        _check_short(topic, batch)
        in_offset_order, max_timestamp = _walk(topic, batch)
    if not in_offset_order and source == target != Codec.NONE:
        raise InvalidRecords("the offsets of compressed records have to be 0, 1, 2 and so on")
    if target != source or not in_offset_order:
        _check_short(topic, batch)
        batch = _rebuilt(topic, batch, target, in_offset_order)
        _check_size(topic, batch)
    append_time = topic.now_ms if config.is_log_append_time else NO_TIMESTAMP
    if config.is_log_append_time:
        batch = _restamped(batch, batch.attributes | LOG_APPEND_TIME_FLAG, topic.now_ms)
    elif batch.is_log_append_time or max_timestamp != batch.max_timestamp:
        batch = _restamped(batch, batch.attributes & ~LOG_APPEND_TIME_FLAG, max_timestamp)
    return Accepted(batch, append_time)


def fast_path_attributes(config: TopicConfig) -> frozenset[int]:
    """Return the attributes of batches that need no conversion to the topic's compression type.

    Compressed batches are left out if the sizes of their records must be checked.
    """
    kind = config.compression_type
    codecs = list(Codec) if kind == "producer" else [codec_named(kind)]
    if _limits_records(config):
        codecs = [codec for codec in codecs if codec is Codec.NONE]
    return frozenset(codec | flag for codec in codecs for flag in (0, TRANSACTIONAL_FLAG))


def _limits_records(config: TopicConfig) -> bool:
    """Whether a batch that is decompressed as a whole may have a larger record than is allowed."""
    return config.max_decompressed_message_bytes < WHOLE_BYTES_MAX


def _target_codec(compression_type: str, batch: RecordBatch) -> int:
    """Return the codec in which the batch is stored. Plain control records stay uncompressed."""
    if compression_type == "producer" or (batch.is_control and batch.codec == Codec.NONE):
        return batch.codec
    return codec_named(compression_type)


def _check_time_type(topic: _Topic, batch: RecordBatch) -> None:
    if batch.is_log_append_time and (
        topic.config.is_log_append_time or batch.max_timestamp == NO_TIMESTAMP
    ):
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "producers must not set the timestamp type LogAppendTime",
            ((0, "the timestamp type is LogAppendTime"),),
        )


def _passes_fast_check(topic: _Topic, batch: RecordBatch) -> bool:
    config = topic.config
    is_short = topic.effort is Effort.SHORT
    if (
        config.message_timestamp_before_max_ms < _NEVER
        or (batch.max_timestamp > topic.latest and not config.is_log_append_time)
        or batch.is_log_append_time
        or (batch.count > _WHOLE_RECORDS_MAX and topic.effort is Effort.FULL)
        or (batch.codec and _limits_records(config))
    ):
        return False
    try:
        return has_plain_records(
            batch.data,
            batch.codec,
            batch.count,
            batch.max_timestamp - batch.base_timestamp,
            config.is_compacted,
            AT_ONCE_MAX if is_short else WHOLE_BYTES_MAX,
        )
    except DecompressionLimit:
        if is_short:
            raise LongValidation from None
        return False


def _check_short(topic: _Topic, batch: RecordBatch) -> None:
    """Raise LongValidation if the effort is SHORT, and the records may be many."""
    if topic.effort is Effort.SHORT and (batch.codec or batch.size > SHORT_BYTES_MAX):
        raise LongValidation


def _walk(topic: _Topic, batch: RecordBatch) -> tuple[bool, int]:
    """Check each record. Return whether the offsets are in order, and the largest timestamp."""
    config = topic.config
    earliest, latest = topic.earliest, topic.latest
    keyless: list[int] = []
    out_of_range: list[tuple[int, int]] = []
    in_order = True
    max_timestamp = NO_TIMESTAMP
    record_max = config.max_decompressed_message_bytes if batch.codec else RECORD_BYTES_MAX
    for index, record in enumerate(skim_records(batch, decompressed_max(batch), record_max)):
        timestamp = record.timestamp
        max_timestamp = max(max_timestamp, timestamp)
        in_order = in_order and record.offset_delta == index
        if config.is_compacted and not record.has_key:
            keyless.append(index)
        elif (
            not config.is_log_append_time
            and timestamp != NO_TIMESTAMP
            and not earliest <= timestamp <= latest
        ):
            out_of_range.append((index, timestamp))
    if out_of_range:
        raise _late(topic, out_of_range, keyless)
    if keyless:
        errors = tuple((index, _NO_KEY) for index in keyless)
        shown = ", ".join(str(index) for index in keyless[:_ERRORS_SHOWN])
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"{len(keyless)} records have no key, but {topic.partition} is compacted; "
            f"the first: {shown}",
            errors,
            Rejection.NO_KEY,
        )
    return in_order, max_timestamp


_NO_KEY = "records of a compacted topic must have a key"


def _late(
    topic: _Topic,
    out_of_range: list[tuple[int, int]],
    keyless: list[int] | None = None,
) -> RecordsRefused:
    earliest, latest = topic.earliest, topic.latest
    errors = [
        (index, f"timestamp {timestamp} is not within [{earliest}, {latest}]")
        for index, timestamp in out_of_range
    ]
    errors += [(index, _NO_KEY) for index in keyless or ()]
    return RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP,
        f"records have timestamps that {topic.partition} does not accept",
        tuple(sorted(errors)),
    )


def decompressed_max(batch: RecordBatch) -> int:
    """Return the maximum size of a batch's decompressed records, in bytes."""
    return max(DECOMPRESSED_MAX, batch.size * DECOMPRESSED_RATIO)


def _rebuilt(topic: _Topic, batch: RecordBatch, target: int, in_order: bool) -> RecordBatch:
    """Return a batch of the same records in another codec, with the offsets 0, 1, 2 and so on."""
    config = topic.config
    codec = Codec(target)
    level = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(codec)
    if not in_order:
        return _renumbered(batch, codec, level)
    records = decompress(batch.codec, batch.payload, decompressed_max(batch))
    payload = compress(codec, records, level)
    data = bytearray(batch.data[:HEADER_SIZE])
    data += payload
    SIZE.pack_into(data, LENGTH_POSITION, len(data) - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, batch.attributes & ~CODEC_MASK | codec)
    seal(data)
    return RecordBatch(data)


def _renumbered(batch: RecordBatch, codec: Codec, level: int | None) -> RecordBatch:
    builder = RecordBatchBuilder(
        codec=codec,
        level=level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
    for record in iterate_records(batch, decompressed_max(batch)):
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return RecordBatch(builder.build())


def _restamped(batch: RecordBatch, attributes: int, max_timestamp: int) -> RecordBatch:
    """Return the batch with other attributes and max timestamp. Change it in place if possible."""
    data = memoryview(bytearray(batch.data)) if batch.data.readonly else batch.data
    ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, attributes)
    TIMESTAMP.pack_into(data, MAX_TIMESTAMP_POSITION, max_timestamp)
    seal(data)
    return RecordBatch(data)
