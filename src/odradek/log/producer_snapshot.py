"""The `.snapshot` files. A file has the producers' state at the offset in the file's name.

    version int16 (1) | CRC-32C of the following bytes uint32 | count int32, then for each producer:
    producer id int64 | epoch int16 | last sequence int32 | last offset int64
    | offset delta of the last batch int32 | last timestamp int64 | coordinator epoch int32
    | first offset of the open transaction int64 (-1: none)

A snapshot has only the newest batch of a producer. Therefore, after a clean restart, a duplicate of
an older batch is rejected as out of order, as in Apache Kafka. After a crash, recovery reads
batches and adds them to the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from odradek.log.errors import DamagedFile
from odradek.log.producer_state import ProducerStateEntry
from odradek.records.checksum import crc32c

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1


def snapshot_content(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the content of a snapshot file."""
    packed = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence if last else -1,
                last.last_offset if last else -1,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def read_snapshot(path: str, data: bytes) -> list[ProducerStateEntry]:
    """Return the producers in the content of a snapshot file.

    Raises:
        DamagedFile: the file is not a complete snapshot.
    """
    if len(data) < _HEADER.size + _COUNT.size:
        raise DamagedFile(f"{path} has {len(data)} bytes: not a producer snapshot")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise DamagedFile(f"{path} has version {version}, not {_VERSION}")
    body = data[_HEADER.size :]
    if crc32c(body) != crc:
        raise DamagedFile(f"{path} has checksum {crc:#010x}, its bytes {crc32c(body):#010x}")
    count = _COUNT.unpack_from(body)[0]
    rows = body[_COUNT.size :]
    if count * _ENTRY.size != len(rows):
        raise DamagedFile(f"{path} says {count} producers in {len(rows)} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(rows)]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerStateEntry:
    entry = ProducerStateEntry(
        producer_id,
        epoch,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        transaction_first_offset=transaction_first_offset,
    )
    if last_offset >= 0:
        entry.add_batch(epoch, last_sequence, last_offset, offset_delta, timestamp)
    return entry
