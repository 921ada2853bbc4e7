"""Damaged batches by the thousand, each with the answers that are right.

A batch is damaged on its way (its checksum is wrong then), or was wrong when its checksum was
taken (`sealed`). Of the latter some do no harm, and are taken; then a consumer must be able to
read what was stored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.records.batch import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec, compress

NONE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP = 0, 2, 10, 32
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD = 53, 87
UNKNOWN_SERVER_ERROR = -1
UNREADABLE = {CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR}
"""What Apache Kafka answers depends on where its reader stumbles."""

BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, CRC = (
    range(8),
    range(8, 12),
    range(12, 16),
    range(16, 17),
    range(17, 21),
)
ATTRIBUTES, LAST_OFFSET_DELTA, TIMES, PRODUCER, COUNT = (
    range(21, 23),
    range(23, 27),
    range(27, 43),
    range(43, 57),
    range(57, 61),
)
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


class Case(NamedTuple):
    """A payload, and the error codes that may answer it."""

    name: str
    data: bytes
    answers: set[int]


def good(now_ms: int, codec: Codec = Codec.NONE) -> bytearray:
    """Three records, each of another shape."""
    builder = RecordBatchBuilder(codec=codec)
    builder.append(now_ms - 1000, b"key", b"value " * 4, [("header", b"content"), ("null", None)])
    builder.append(now_ms - 500, None, b"value")
    builder.append(now_ms - 900, b"another key", None)
    return builder.build()


def flipped(batch: bytearray, bit: int, *, sealed: bool) -> bytes:
    """One bit is another one."""
    damaged = bytearray(batch)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    if sealed:
        seal(damaged)
    return bytes(damaged)


def resized(batch: bytes | bytearray, size: int) -> bytes:
    """Cut off, or filled up with zeros, with the length and checksum that belong to it."""
    changed = bytearray((bytes(batch) + bytes(max(0, size - len(batch))))[:size])
    struct.pack_into(">i", changed, LENGTH_POSITION, size - LOG_OVERHEAD)
    seal(changed)
    return bytes(changed)


def _bits(places: range) -> range:
    return range(places.start * 8, places.stop * 8)


def damaged_headers(now_ms: int) -> Iterator[Case]:
    """Every bit of the header is wrong once, as a bad cable would have it."""
    batch = good(now_ms)
    for places, answers in (
        (BASE_OFFSET, {INVALID_RECORD}),
        (LENGTH, {CORRUPT_MESSAGE, INVALID_RECORD}),
        (LEADER_EPOCH, {NONE}),  # the leader writes its own
        (MAGIC, {CORRUPT_MESSAGE, INVALID_RECORD}),
        # A flag of transactions counts before the checksum, where there is no transactional id.
        (
            range(CRC.start, HEADER_SIZE),
            {CORRUPT_MESSAGE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        ),
    ):
        for bit in _bits(places):
            yield Case(f"bit {bit} of the header", flipped(batch, bit, sealed=False), answers)


def lying_headers(now_ms: int) -> Iterator[Case]:
    """Every bit that the checksum covers is wrong once, and the checksum is right."""
    batch = good(now_ms)
    for places, answers in (
        (ATTRIBUTES, {NONE, INVALID_TIMESTAMP, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, *UNREADABLE}),
        (LAST_OFFSET_DELTA, {INVALID_RECORD}),
        (TIMES, {NONE, INVALID_TIMESTAMP, INVALID_RECORD}),
        (PRODUCER, {NONE, INVALID_RECORD}),
        (COUNT, {INVALID_RECORD}),
    ):
        for bit in _bits(places):
            yield Case(f"bit {bit}, sealed", flipped(batch, bit, sealed=True), answers)


def cut(now_ms: int) -> Iterator[Case]:
    """Batches that end at every byte, with the old length and with one that fits."""
    batch = good(now_ms)
    for size in range(len(batch)):
        yield Case(f"cut at {size}", bytes(batch[:size]), {CORRUPT_MESSAGE, INVALID_RECORD})
    for size in range(HEADER_SIZE, len(batch) + 20):
        if size != len(batch):
            yield Case(f"resized to {size}", resized(batch, size), {INVALID_RECORD})
    for codec in COMPRESSED:
        batch = good(now_ms, codec)
        for size in range(HEADER_SIZE, len(batch)):
            yield Case(f"{codec.name} cut to {size}", resized(batch, size), UNREADABLE)


def damaged_records(now_ms: int) -> Iterator[Case]:
    """Every bit of the records is wrong once, and the checksum is right."""
    for codec in Codec:
        batch = good(now_ms, codec)
        for bit in _bits(range(HEADER_SIZE, len(batch))):
            name = f"bit {bit - 8 * HEADER_SIZE} of {codec.name} records"
            answers = {NONE, INVALID_TIMESTAMP, *UNREADABLE}
            yield Case(name, flipped(batch, bit, sealed=True), answers)


def _around(payload: bytes, codec: Codec, now_ms: int) -> bytes:
    """A batch of one record with this for its compressed records."""
    builder = RecordBatchBuilder(codec=codec)
    builder.append(now_ms, None, b"")
    return resized(builder.build()[:HEADER_SIZE] + payload, HEADER_SIZE + len(payload))


def bombs(now_ms: int) -> Iterator[Case]:
    """Few bytes that stand for very many, or say so."""
    refused = {INVALID_RECORD, MESSAGE_TOO_LARGE, *UNREADABLE}
    for codec in COMPRESSED:
        builder = RecordBatchBuilder(codec=codec)
        size = 300 << 20 if codec is not Codec.SNAPPY else 19 << 20
        builder.append(now_ms, None, bytes(size))
        bomb = bytes(builder.build())
        if len(bomb) < 1 << 20:
            yield Case(f"{codec.name} record of {size >> 20} MB", bomb, {NONE, *refused})
        noise = bytes(compress(codec, bytes(100 << 20)))
        if len(noise) < 1 << 20:
            yield Case(f"{codec.name} zeros", _around(noise, codec, now_ms), refused)
    members = b"".join([zlib.compress(bytes(1 << 20), 9, 31)] * 200)
    yield Case("200 gzip members", _around(members, Codec.GZIP, now_ms), refused)
    for claimed in (2**31 - 1, 2**32 - 1, 1 << 30):
        block = _uvarint(claimed) + b"\x00a"
        yield Case(f"snappy of {claimed} bytes", _around(block, Codec.SNAPPY, now_ms), refused)
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"abc"
    yield Case("snappy block beyond the end", _around(framed, Codec.SNAPPY, now_ms), refused)
    # A frame header with a window of 2^41 bytes, and one that claims a content of 2^63.
    for head in (b"\x00\xf8", b"\xe0" + b"\xff" * 7 + b"\x7f"):
        frame = b"\x28\xb5\x2f\xfd" + head + b"\x01\x00\x00"
        yield Case("zstd that claims much", _around(frame, Codec.ZSTD, now_ms), refused)
    frame = b"\x04\x22\x4d\x18\x68\x40" + b"\xff" * 8 + b"\x00" * 5
    yield Case("lz4 that claims much", _around(frame, Codec.LZ4, now_ms), refused)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


CORPUS: dict[str, Callable[[int], Iterator[Case]]] = {
    "damaged headers": damaged_headers,
    "lying headers": lying_headers,
    "cut": cut,
    "damaged records": damaged_records,
    "bombs": bombs,
}
