"""Divides a batch that is too large for its topic (MESSAGE_TOO_LARGE).

The parts have the same records with the same sequence numbers. They are as large as `batch.size`; if the
batch is not larger than that, or is a part itself, half as large as it.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.client.core.producer_batch import ProducerBatch, ProducerIdentity
from odradek.records.batch import HEADER_SIZE, RECORD_BATCH_HEADER, add_to_sequence
from odradek.records.compression import Codec, decompress
from odradek.records.varint import read_varint, read_varlong

_CODEC_MASK = 7
_SIZE_MAX = (1 << 31) - 1
_NO_HEADERS = b"\0"
_OVERHEAD = 32
"""More than what a record needs besides its key, value and headers."""


class _Record(NamedTuple):
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes | None

    @property
    def size(self) -> int:
        """The size of the record, or slightly more."""
        return sum(len(each) for each in self[1:] if each is not None) + _OVERHEAD


def split(
    batch: ProducerBatch,
    codec: Codec,
    level: int | None,
    batch_bytes: int,
    *,
    is_transactional: bool,
) -> list[ProducerBatch]:
    """Return batches with the records of a batch that has at least two."""
    header = RECORD_BATCH_HEADER.unpack_from(batch.data)
    flags, base_timestamp, identity = header[5], header[7], ProducerIdentity(header[9], header[10])
    records = _records(bytes(batch.data[HEADER_SIZE:]), flags & _CODEC_MASK, base_timestamp)
    assert len(records) == batch.count, "the batch was encoded here"
    limit = batch_bytes
    if batch.whole is not None or batch.size <= batch_bytes:
        limit = batch.size // 2
    parts: list[ProducerBatch] = []
    sequence = batch.base_sequence
    for group in _groups(records, limit - HEADER_SIZE):
        part = ProducerBatch(
            batch.topic_partition, batch.number, batch.created_ms, _SIZE_MAX, batch.waiter
        )
        encoder = part.encoder
        assert encoder is not None, "it was made just now"
        for each in group:
            encoder.append(*each)
        part.close(codec, level, is_transactional=is_transactional)
        if batch.has_sequence:
            part.stamp(identity, sequence)
            sequence = add_to_sequence(sequence, part.count)
        parts.append(part)
    return parts


def _groups(records: list[_Record], limit_bytes: int) -> list[list[_Record]]:
    """Return at least two groups of records that follow one another."""
    groups: list[list[_Record]] = []
    size = 0
    for each in records:
        if not groups or size + each.size > limit_bytes:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size
    if len(groups) == 1:
        middle = len(records) // 2
        groups = [records[:middle], records[middle:]]
    return groups


def _records(payload: bytes, codec: int, base_timestamp: int) -> list[_Record]:
    data = payload if codec == Codec.NONE else decompress(codec, payload, _SIZE_MAX)
    found = []
    position = 0
    while position < len(data):
        size, position = read_varint(data, position)
        end = position + size
        delta, position = read_varlong(data, position + 1)  # behind the attributes
        _, position = read_varint(data, position)
        key, position = _field(data, position)
        value, position = _field(data, position)
        headers = data[position:end]
        given = None if headers == _NO_HEADERS else headers
        found.append(_Record(base_timestamp + delta, key, value, given))
        position = end
    return found


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size
