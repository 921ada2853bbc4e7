"""Encodes record batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM,
    CHECKSUM_POSITION,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_HEADER,
    TRANSACTIONAL_FLAG,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import Codec, compress
from odradek.records.varint import size_of_varint, varint

_START: Final = Struct(">qiibI")
"""The fields of the header up to the checksum."""
_COVERED: Final = Struct(">hiqqqhii")
"""The fields that the checksum covers."""
_NULL: Final = varint(-1)
"""The length field of null."""

HeaderPairs = Iterable[tuple[str, bytes | None]]


class RecordBatchBuilder:
    """Collects records and encodes them as a batch, as Apache Kafka's producer does.

    The keyword arguments are fields of the batch's header. `level` is the compression level; None
    means the codec's default. `log_append_time` is the timestamp of all records if it is given.
    """

    __slots__ = (
        "_attributes",
        "_base_offset",
        "_base_sequence",
        "_base_timestamp",
        "_codec",
        "_last_offset",
        "_leader_epoch",
        "_level",
        "_log_append_time",
        "_max_timestamp",
        "_producer_epoch",
        "_producer_id",
        "_records",
        "count",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        log_append_time: int | None = None,
    ) -> None:
        self._base_offset = base_offset
        self._codec = codec
        self._level = level
        self._leader_epoch = leader_epoch
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._log_append_time = log_append_time
        self._attributes = (
            codec
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
            | (LOG_APPEND_TIME_FLAG if log_append_time is not None else 0)
        )
        self._records = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset = base_offset - 1
        self.count = 0
        """Number of records so far."""

    @property
    def size(self) -> int:
        """Size of the batch so far in bytes, before compression."""
        return HEADER_SIZE + len(self._records)

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self._last_offset + 1

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderPairs = (),
        offset: int | None = None,
    ) -> int:
        """Add a record and return its offset. `offset` must be after the last record's offset.

        Without `offset`, the record gets the next offset.
        """
        if offset is None:
            offset = self._last_offset + 1
        assert offset > self._last_offset, "offsets grow"
        if self.count == 0:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        body = [
            b"\0",
            varint(timestamp - self._base_timestamp),
            varint(offset - self._base_offset),
            _NULL if key is None else varint(len(key)),
            key or b"",
            _NULL if value is None else varint(len(value)),
            value or b"",
        ]
        if headers:
            headers = tuple(headers)
            body.append(varint(len(headers)))
            for name, content in headers:
                encoded = name.encode()
                body += varint(len(encoded)), encoded
                body += (_NULL,) if content is None else (varint(len(content)), content)
        else:
            body.append(b"\0")
        record = b"".join(body)
        self._records += varint(len(record)) + record
        self._last_offset = offset
        self.count += 1
        return offset

    def build(self, last_offset: int | None = None) -> bytearray:
        """Return the batch.

        `last_offset` is the batch's last offset in the header. It may be after the last record's
        offset, because compaction removes records. By default, the two offsets are equal.
        """
        batch = bytearray(HEADER_SIZE)
        if self._codec == Codec.NONE:
            batch += self._records
        else:
            batch += compress(self._codec, self._records, self._level)
        time = self._log_append_time
        RECORD_BATCH_HEADER.pack_into(
            batch,
            0,
            self._base_offset,
            len(batch) - LOG_OVERHEAD,
            self._leader_epoch,
            MAGIC,
            0,
            self._attributes,
            (self._last_offset if last_offset is None else last_offset) - self._base_offset,
            self._base_timestamp,
            self._max_timestamp if time is None else time,
            self._producer_id,
            self._producer_epoch,
            self._base_sequence,
            self.count,
        )
        seal(batch)
        return batch


def plain_batch(timestamp: int, records: Sequence[tuple[bytes, bytes]]) -> bytearray:
    """Encode keys and values with the same timestamp. A builder takes twice the time."""
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        # Before the key, attributes and timestamp delta are 0. After the value are 0 headers.
        record = b"".join(
            (b"\0\0", varint(delta), varint(len(key)), key, varint(len(value)), value, b"\0")
        )
        parts += varint(len(record)), record
    count = len(records)
    covered = b"".join(
        (
            _COVERED.pack(
                Codec.NONE,
                count - 1,
                timestamp,
                timestamp,
                NO_PRODUCER_ID,
                NO_PRODUCER_EPOCH,
                NO_SEQUENCE,
                count,
            ),
            *parts,
        )
    )
    length = ATTRIBUTES_POSITION - LOG_OVERHEAD + len(covered)
    start = _START.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc32c(covered))
    return bytearray(start + covered)


def seal(batch: bytearray | memoryview) -> None:
    """Compute the checksum of a batch and write it into the batch."""
    crc = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    CHECKSUM.pack_into(batch, CHECKSUM_POSITION, crc)


def record_size(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: HeaderPairs = (),
) -> int:
    """Return the size of an encoded record in bytes, before compression."""
    headers = tuple(headers)
    body = 1 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta)
    body += _field_size(key) + _field_size(value) + size_of_varint(len(headers))
    for name, content in headers:
        body += _field_size(name.encode()) + _field_size(content)
    return size_of_varint(body) + body


def _field_size(data: bytes | None) -> int:
    return 1 if data is None else size_of_varint(len(data)) + len(data)
