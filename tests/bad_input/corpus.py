"""Thousands of damaged batches, the same in each run.

Some batches are damaged after their checksum was computed, so that the checksum is wrong. Others are
damaged before (`valid_checksum`). Some of these are valid batches and are appended. Consumers must
be able to read them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.records.batch import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec, compress

NOW_MS = 1_000_000_000
"""The timestamp of the records (1970). With one bit flipped it is before 2005 or after 2038, so the
outcome does not depend on the date of the test."""
CHECKED = range(21, HEADER_SIZE)
"""The bytes of the header that the checksum covers."""
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


class Case(NamedTuple):
    """The records of one Produce request."""

    name: str
    data: bytes


def good(codec: Codec = Codec.NONE) -> bytearray:
    """Return a valid batch of three records, with different null fields."""
    builder = RecordBatchBuilder(codec=codec)
    builder.append(NOW_MS - 1000, b"key", b"value " * 4, [("header", b"content"), ("null", None)])
    builder.append(NOW_MS - 500, None, b"value")
    builder.append(NOW_MS - 900, b"another key", None)
    return builder.build()


def flipped(batch: bytearray, bit: int, *, valid_checksum: bool) -> bytes:
    """Return the batch with one bit flipped."""
    damaged = bytearray(batch)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    if valid_checksum:
        seal(damaged)
    return bytes(damaged)


def resized(batch: bytes | bytearray, size: int) -> bytes:
    """Truncate the batch, or pad it with zeros, and set the length and checksum."""
    changed = bytearray((bytes(batch) + bytes(max(0, size - len(batch))))[:size])
    struct.pack_into(">i", changed, LENGTH_POSITION, size - LOG_OVERHEAD)
    seal(changed)
    return bytes(changed)


def _bits(places: range) -> range:
    return range(places.start * 8, places.stop * 8)


def damaged_headers() -> Iterator[Case]:
    """Yield a case for each bit of the header. The bit is flipped, the checksum is unchanged."""
    batch = good()
    for bit in _bits(range(HEADER_SIZE)):
        yield Case(f"bit {bit} of the header", flipped(batch, bit, valid_checksum=False))


def headers_with_valid_checksum() -> Iterator[Case]:
    """Yield a case for each bit that the checksum covers. The bit is flipped, the checksum is
    valid."""
    batch = good()
    for bit in _bits(CHECKED):
        yield Case(f"bit {bit}, valid checksum", flipped(batch, bit, valid_checksum=True))


def cut() -> Iterator[Case]:
    """Yield batches truncated at each byte, with the old length and with the right length."""
    batch = good()
    for size in range(len(batch)):
        yield Case(f"cut at {size}", bytes(batch[:size]))
    for size in range(HEADER_SIZE, len(batch) + 20):
        if size != len(batch):
            yield Case(f"resized to {size}", resized(batch, size))
    for codec in COMPRESSED:
        batch = good(codec)
        for size in range(HEADER_SIZE, len(batch)):
            yield Case(f"{codec.name} cut to {size}", resized(batch, size))


def damaged_records() -> Iterator[Case]:
    """Yield a case for each bit of the records. The bit is flipped, the checksum is valid."""
    for codec in Codec:
        batch = good(codec)
        for bit in _bits(range(HEADER_SIZE, len(batch))):
            name = f"bit {bit - 8 * HEADER_SIZE} of {codec.name} records"
            yield Case(name, flipped(batch, bit, valid_checksum=True))


def _around(payload: bytes, codec: Codec) -> bytes:
    """Return a batch of one record with `payload` as the compressed records."""
    builder = RecordBatchBuilder(codec=codec)
    builder.append(NOW_MS, None, b"")
    return resized(builder.build()[:HEADER_SIZE] + payload, HEADER_SIZE + len(payload))


def bombs() -> Iterator[Case]:
    """Yield small batches that decompress to very many bytes, or claim to."""
    for codec in COMPRESSED:
        builder = RecordBatchBuilder(codec=codec)
        size = 300 << 20 if codec is not Codec.SNAPPY else 19 << 20
        builder.append(NOW_MS, None, bytes(size))
        bomb = bytes(builder.build())
        if len(bomb) < 1 << 20:
            yield Case(f"{codec.name} record of {size >> 20} MB", bomb)
        noise = bytes(compress(codec, bytes(100 << 20)))
        if len(noise) < 1 << 20:
            yield Case(f"{codec.name} zeros", _around(noise, codec))
    members = b"".join([zlib.compress(bytes(1 << 20), 9, 31)] * 200)
    yield Case("200 gzip members", _around(members, Codec.GZIP))
    for claimed in (2**31 - 1, 2**32 - 1, 1 << 30):
        block = _uvarint(claimed) + b"\x00a"
        yield Case(f"snappy of {claimed} bytes", _around(block, Codec.SNAPPY))
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"abc"
    yield Case("snappy block beyond the end", _around(framed, Codec.SNAPPY))
    # A frame header with a window of 2^41 bytes, and a frame header with a content size of 2^63.
    for head in (b"\x00\xf8", b"\xe0" + b"\xff" * 7 + b"\x7f"):
        frame = b"\x28\xb5\x2f\xfd" + head + b"\x01\x00\x00"
        yield Case("zstd that claims much", _around(frame, Codec.ZSTD))
    frame = b"\x04\x22\x4d\x18\x68\x40" + b"\xff" * 8 + b"\x00" * 5
    yield Case("lz4 that claims much", _around(frame, Codec.LZ4))


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


CORPUS: dict[str, Callable[[], Iterator[Case]]] = {
    "damaged headers": damaged_headers,
    "headers with valid checksum": headers_with_valid_checksum,
    "cut": cut,
    "damaged records": damaged_records,
    "bombs": bombs,
}
