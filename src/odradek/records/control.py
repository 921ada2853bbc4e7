"""Control records: metadata in a partition's log, which consumers do not see.

The key of a control record consists of a version (int16, 0) and the type (int16). The value of an
end-of-transaction marker consists of a version (int16, 0) and the coordinator's epoch (int32). The
values of KRaft's control records are messages in `odradek.wire`. These messages always have version
0, because Apache Kafka reads only version 0. This module handles these values as bytes.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    RECORD_BATCH_HEADER,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatch,
)
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.errors import InvalidRecords
from odradek.records.record import Record, iterate_records

CONTROL_KEY: Final = Struct(">hh")
END_TRANSACTION_VALUE: Final = Struct(">hi")
_PLAIN_END: Final = Struct(">5shhBhiB")
"""The record of an end-of-transaction marker. The fields are: length, attributes, deltas and key
length (5 bytes), key, value length, value, number of headers."""
_PLAIN_END_FRONT: Final = bytes((16 << 1, 0, 0, 0, CONTROL_KEY.size << 1))
_PLAIN_END_BATCH: Final = Struct(RECORD_BATCH_HEADER.format + _PLAIN_END.format[1:])


class ControlType(IntEnum):
    """The types of control records. Readers skip records of unknown types."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndOfTransaction(NamedTuple):
    """A commit or abort marker, with the epoch of the transaction coordinator that wrote it."""

    committed: bool
    coordinator_epoch: int


def control_type(record: Record) -> ControlType:
    """Return the type of a control record.

    Raises:
        InvalidRecords: the record's key is not the key of a control record.
    """
    key = record.key
    if key is None or len(key) < CONTROL_KEY.size:
        raise InvalidRecords("a control record has no type in its key")
    version, kind = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecords(f"a control record has key version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return ControlType.UNKNOWN


def control_key(kind: ControlType) -> bytes:
    """Return the key of control records of a type."""
    return CONTROL_KEY.pack(0, kind)


def control_batch(
    kind: ControlType,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Encode a batch of one control record without a producer id, as KRaft writes it."""
    builder = RecordBatchBuilder(
        base_offset=base_offset, leader_epoch=leader_epoch, is_control=True
    )
    builder.append(timestamp, control_key(kind), value)
    return builder.build()


def end_of_transaction_batch(
    committed: bool,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Encode the marker that ends a producer's transaction in a partition."""
    batch = bytearray(
        _PLAIN_END_BATCH.pack(
            0,
            _PLAIN_END_BATCH.size - LOG_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            TRANSACTIONAL_FLAG | CONTROL_FLAG,
            0,
            timestamp,
            timestamp,
            producer_id,
            producer_epoch,
            NO_SEQUENCE,
            1,
            _PLAIN_END_FRONT,
            0,
            ControlType.COMMIT if committed else ControlType.ABORT,
            END_TRANSACTION_VALUE.size << 1,
            0,
            coordinator_epoch,
            0,
        )
    )
    seal(batch)
    return batch


def read_end_of_transaction(batch: RecordBatch) -> EndOfTransaction | None:
    """Return the marker in a control batch; None if compaction has emptied the batch.

    Raises:
        InvalidRecords: the batch holds another record.
    """
    plain = plain_end_of_transaction(batch.data)
    if plain is not None:
        return plain
    record = next(iterate_records(batch), None)
    if record is None:
        return None
    kind = control_type(record)
    value = record.value
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecords(f"{kind.name} is not the end of a transaction")
    if value is None or len(value) < END_TRANSACTION_VALUE.size:
        raise InvalidRecords("the end of a transaction does not name the coordinator's epoch")
    version, epoch = END_TRANSACTION_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecords(f"the end of a transaction has version {version}")
    return EndOfTransaction(kind is ControlType.COMMIT, epoch)


def plain_end_of_transaction(batch: Buffer) -> EndOfTransaction | None:
    """Return the marker in a control batch that has the form that brokers write; else None."""
    if len(batch) != _PLAIN_END_BATCH.size or batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK:
        return None
    front, version, kind, length, value_version, epoch, headers = _PLAIN_END.unpack_from(
        batch, HEADER_SIZE
    )
    if (
        front != _PLAIN_END_FRONT
        or version < 0
        or length != END_TRANSACTION_VALUE.size << 1
        or value_version < 0
        or headers
    ):
        return None
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return EndOfTransaction(kind == ControlType.COMMIT, epoch)
