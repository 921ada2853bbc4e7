"""Compressed payloads as other libraries write them, and damaged ones.

`payloads(content)` has them by name. The lz4 frames are put together by hand, because no library
writes all of them.
"""

from __future__ import annotations

import gzip
import struct
import zlib

import lz4.block
import lz4.frame
import xxhash
import zstandard
from cramjam import snappy

from odradek.records.compression import SNAPPY_HEADER, Codec

Payloads = dict[str, tuple[Codec, bytes]]
BLOCK = 65_536


def payloads(content: bytes) -> Payloads:
    """Return all payloads. Those that can be read have this content."""
    made: Payloads = {}
    for codec, cases in (
        (Codec.GZIP, _gzip(content)),
        (Codec.SNAPPY, _snappy(content)),
        (Codec.LZ4, {**_lz4(content), **_lz4_of_the_library(content)}),
        (Codec.ZSTD, _zstd(content)),
    ):
        made |= {f"{codec.name.lower()}: {name}": (codec, data) for name, data in cases.items()}
    return made


# -- gzip -----------------------------------------------------------------------------------------


def gzip_member(
    content: bytes,
    *,
    flags: int = 0,
    fields: bytes = b"",
    crc: int | None = None,
    size: int | None = None,
    method: int = 8,
) -> bytes:
    """Return a gzip stream with these header fields, checksum and size."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(content) + deflate.flush()
    head = struct.pack("<2sBBIBB", b"\x1f\x8b", method, flags, 0, 0, 255)
    crc = zlib.crc32(content) if crc is None else crc
    size = len(content) & 0xFFFFFFFF if size is None else size
    return head + fields + body + struct.pack("<II", crc, size)


def _gzip(content: bytes) -> dict[str, bytes]:
    plain = gzip_member(content)
    half = len(content) // 2
    extra = struct.pack("<H", 5) + b"extra"
    checked = struct.pack("<2sBBIBB", b"\x1f\x8b", 8, 2, 0, 0, 255)
    header_crc = struct.pack("<H", zlib.crc32(checked) & 0xFFFF)
    return {
        "plain": plain,
        "of Python": gzip.compress(content),
        "two members": gzip_member(content[:half]) + gzip_member(content[half:]),
        "three members": b"".join(
            gzip_member(part) for part in (content[:9], content[9:half], content[half:])
        ),
        "an empty member at the end": plain + gzip_member(b""),
        "an empty member at the begin": gzip_member(b"") + plain,
        "only an empty member": gzip_member(b""),
        "member of more records": plain + gzip_member(b"more"),
        "a member of one byte at the end": gzip_member(content[:-1]) + gzip_member(content[-1:]),
        "zeros after the end": plain + bytes(8),
        "one zero after the end": plain + bytes(1),
        "many zeros after the end": plain + bytes(5000),
        "text after the end": plain + b"trailing bytes that are no member",
        "one byte after the end": plain + b"x",
        "a magic after the end": plain + b"\x1f\x8b",
        "half a header after the end": plain + plain[:7],
        "a header after the end": plain + plain[:10],
        "half a member after the end": plain + plain[: len(plain) // 2],
        "a damaged member after the end": plain + gzip_member(b"more", crc=1),
        "a wrong method after the end": plain + gzip_member(b"more", method=7),
        "zeros between two members": gzip_member(content[:half])
        + bytes(8)
        + gzip_member(content[half:]),
        "text between two members": gzip_member(content[:half])
        + b"x"
        + gzip_member(content[half:]),
        "second of two members cut": gzip_member(content[:half])
        + gzip_member(content[half:])[:-10],
        "FTEXT": gzip_member(content, flags=1),
        "FEXTRA": gzip_member(content, flags=4, fields=extra),
        "FNAME": gzip_member(content, flags=8, fields=b"name\0"),
        "FCOMMENT": gzip_member(content, flags=16, fields=b"comment\0"),
        "FEXTRA, FNAME and FCOMMENT": gzip_member(content, flags=28, fields=extra + b"n\0c\0"),
        "FHCRC": gzip_member(content, flags=2, fields=header_crc),
        "wrong FHCRC": gzip_member(content, flags=2, fields=b"\x01\x02"),
        "FHCRC in the second": gzip_member(content[:half])
        + gzip_member(content[half:], flags=2, fields=header_crc),
        "wrong FHCRC in the second": gzip_member(content[:half])
        + gzip_member(content[half:], flags=2, fields=b"\1\2"),
        "reserved flag": gzip_member(content, flags=0x20),
        "reserved flag in the second": gzip_member(content[:half])
        + gzip_member(content[half:], flags=0x20),
        "wrong CRC": gzip_member(content, crc=12345),
        "wrong size": gzip_member(content, size=12345),
        "wrong CRC in the first": gzip_member(content[:half], crc=1) + gzip_member(content[half:]),
        "wrong method": gzip_member(content, method=7),
        "no trailer": plain[:-8],
        "half a trailer": plain[:-4],
        "cut by one": plain[:-1],
        "cut in the middle": plain[: len(plain) // 2],
        "only a header": plain[:10],
        "zlib": zlib.compress(content),
        "deflate": zlib.compress(content, wbits=-15),
        "empty": b"",
        "noise before": b"x" + plain,
    }


# -- snappy ---------------------------------------------------------------------------------------


def _xerial(*blocks: bytes, header: bytes = SNAPPY_HEADER) -> bytes:
    return header + b"".join(struct.pack(">i", len(each)) + each for each in blocks)


def _snappy(content: bytes) -> dict[str, bytes]:
    def block(data: bytes) -> bytes:
        return bytes(snappy.compress_raw(data))

    small = [block(content[at : at + 32_768]) for at in range(0, len(content), 32_768)]
    whole = block(content)
    magic = SNAPPY_HEADER[:8]
    return {
        "blocks": _xerial(*small),
        "one block": _xerial(whole),
        "raw": whole,
        "raw, framed": bytes(snappy.compress(content)),
        "version 2": _xerial(*small, header=magic + struct.pack(">ii", 2, 1)),
        "version 0": _xerial(*small, header=magic + struct.pack(">ii", 0, 1)),
        "negative version": _xerial(*small, header=magic + struct.pack(">ii", -1, 1)),
        "compatible version 2": _xerial(*small, header=magic + struct.pack(">ii", 2, 2)),
        "compatible version 0": _xerial(*small, header=magic + struct.pack(">ii", 1, 0)),
        "little endian versions": _xerial(*small, header=magic + struct.pack("<ii", 1, 1)),
        "two streams": _xerial(*small[:1]) + _xerial(*small[1:]),
        "two streams, one of version 0": _xerial(*small[:1])
        + _xerial(*small[1:], header=magic + struct.pack(">ii", 0, 0)),
        "an empty stream at the end": _xerial(*small) + SNAPPY_HEADER,
        "an empty block": _xerial(*small[:1], block(b""), *small[1:]),
        "an empty block at the end": _xerial(*small, block(b"")),
        "a block of length 0": _xerial(*small[:1], b"", *small[1:]),
        "a block of length 0 at the end": _xerial(*small, b""),
        "a negative length": _xerial(*small) + struct.pack(">i", -5),
        "only a header": SNAPPY_HEADER,
        "half a header": SNAPPY_HEADER[:12],
        "only a magic": SNAPPY_HEADER[:8],
        "one byte after the end": _xerial(*small) + b"x",
        "three bytes after the end": _xerial(*small) + b"xyz",
        "four zeros after the end": _xerial(*small) + bytes(4),
        "text after the end": _xerial(*small) + b"trailing bytes",
        "text after a raw block": whole + b"xyz",
        "cut by one": _xerial(*small)[:-1],
        "cut after a block": _xerial(*small[:-1]),
        "cut in a length": _xerial(*small) + struct.pack(">i", 9)[:3],
        "a raw block cut by one": whole[:-1],
        "a damaged block": _xerial(small[0][:20] + b"\xff" * 20 + small[0][40:], *small[1:]),
        "a length that is too large": whole[:1] + b"\xff\xff\xff\x7f" + whole[3:],
        "empty": b"",
        "noise": b"\x00" * 20,
    }


# -- lz4 ------------------------------------------------------------------------------------------


def lz4_frame(
    content: bytes,
    *,
    version: int = 1,
    linked: bool = False,
    block_size_code: int = 4,
    block_checksum: bool = False,
    content_size: bool | int = False,
    content_checksum: bool = False,
    dictionary: bool = False,
    reserved: int = 0,
    block_reserved: int = 0,
    wrong_header_checksum: bool = False,
    kafka_3160: bool = False,
    wrong_block_checksum: bool = False,
    wrong_content_checksum: bool = False,
    stored: bool = False,
    end: bool = True,
    first_empty: bool = False,
    size: int | None = None,
) -> bytes:
    """Return a frame with these features."""
    flags = version << 6 | (not linked) << 5 | block_checksum << 4
    flags |= bool(content_size) << 3 | content_checksum << 2 | reserved << 1 | dictionary
    descriptor = bytes([flags, block_size_code << 4 | block_reserved])
    if content_size:
        length = len(content) if content_size is True else content_size
        descriptor += struct.pack("<Q", length)
    if dictionary:
        descriptor += struct.pack("<I", 77)
    magic = struct.pack("<I", 0x184D2204)
    hashed = magic + descriptor if kafka_3160 else descriptor
    checksum = xxhash.xxh32_intdigest(hashed) >> 8 & 0xFF
    head = magic + descriptor + bytes([checksum ^ wrong_header_checksum])
    block = size if size is not None else 1 << (8 + 2 * block_size_code)
    parts = [head]
    if first_empty:
        parts.append(struct.pack("<I", 0x80000000))
    for at in range(0, len(content), block):
        data = content[at : at + block]
        before = content[max(0, at - BLOCK) : at] if linked else b""
        packed = lz4.block.compress(data, store_size=False, dict=before)
        if stored or len(packed) >= len(data):
            packed, mark = data, 0x80000000
        else:
            mark = 0
        parts.append(struct.pack("<I", len(packed) | mark) + packed)
        if block_checksum:
            parts.append(struct.pack("<I", xxhash.xxh32_intdigest(packed) ^ wrong_block_checksum))
    if end:
        parts.append(bytes(4))
        if content_checksum:
            found = xxhash.xxh32_intdigest(content) ^ wrong_content_checksum
            parts.append(struct.pack("<I", found))
    return b"".join(parts)


def skippable(data: bytes, number: int = 0) -> bytes:
    """Return a skippable frame of lz4 and zstd."""
    return struct.pack("<II", 0x184D2A50 + number, len(data)) + data


def _lz4(content: bytes) -> dict[str, bytes]:
    plain = lz4_frame(content)
    half = len(content) // 2
    legacy = struct.pack("<I", 0x184C2102)
    packed = lz4.block.compress(content, store_size=False)
    legacy += struct.pack("<I", len(packed)) + packed
    return {
        "independent blocks": plain,
        "one block": lz4_frame(content, block_size_code=7),
        "blocks of 256 KB": lz4_frame(content, block_size_code=5),
        "blocks of 1 MB": lz4_frame(content, block_size_code=6),
        "small blocks": lz4_frame(content, size=1000),
        "linked blocks": lz4_frame(content, linked=True),
        "linked, one block": lz4_frame(content, linked=True, block_size_code=7),
        "linked, one small block": lz4_frame(content[:1000], linked=True),
        "linked flag, independent blocks": plain[:4] + _reflagged(plain, 0x20),
        "stored blocks": lz4_frame(content, stored=True),
        "linked, stored blocks": lz4_frame(content, linked=True, stored=True),
        "block checksums": lz4_frame(content, block_checksum=True),
        "wrong block checksums": lz4_frame(content, block_checksum=True, wrong_block_checksum=True),
        "content size": lz4_frame(content, content_size=True),
        "wrong content size": lz4_frame(content, content_size=12345),
        "content size 0": plain[:4] + _with_size(plain, 0),
        "content checksum": lz4_frame(content, content_checksum=True),
        "wrong content checksum": lz4_frame(
            content, content_checksum=True, wrong_content_checksum=True
        ),
        "missing content checksum": lz4_frame(content, content_checksum=True)[:-4],
        "content checksum cut by one": lz4_frame(content, content_checksum=True)[:-1],
        "all features": lz4_frame(
            content, block_checksum=True, content_size=True, content_checksum=True
        ),
        "dictionary": lz4_frame(content, dictionary=True),
        "reserved flag": lz4_frame(content, reserved=1),
        "reserved bit of the block size": lz4_frame(content, block_reserved=1),
        "reserved high bit of the block size": lz4_frame(content, block_reserved=0x80),
        "version 0": lz4_frame(content, version=0),
        "version 2": lz4_frame(content, version=2),
        "block size code 3": lz4_frame(content, block_size_code=3, size=1000),
        "block size code 0": lz4_frame(content, block_size_code=0, size=200),
        "wrong header checksum": lz4_frame(content, wrong_header_checksum=True),
        "header checksum of KAFKA-3160": lz4_frame(content, kafka_3160=True),
        "legacy frame": legacy,
        "a block larger than its size": lz4_frame(content, size=100_000),
        "a stored block larger than its size": lz4_frame(content, size=100_000, stored=True),
        "no end mark": lz4_frame(content, end=False),
        "end mark cut": plain[:-2],
        "cut in a block": plain[: len(plain) // 2],
        "only a header": plain[:7],
        "half a header": plain[:5],
        "only a magic": plain[:4],
        "only an empty frame": lz4_frame(b""),
        "an empty stored block at the begin": lz4_frame(content, first_empty=True),
        "a block of nothing at the begin": plain[:7] + struct.pack("<I", 1) + b"\0" + plain[7:],
        "a block of nothing at the end": plain[:-4] + struct.pack("<I", 1) + b"\0" + plain[-4:],
        "two frames": lz4_frame(content[:half]) + lz4_frame(content[half:]),
        "an empty frame at the begin": lz4_frame(b"") + plain,
        "an empty frame at the end": plain + lz4_frame(b""),
        "a skippable frame at the begin": skippable(b"abc") + plain,
        "a skippable frame at the end": plain + skippable(b"abc"),
        "zeros after the end": plain + bytes(8),
        "text after the end": plain + b"trailing bytes",
        "one byte after the end": plain + b"x",
        "raw block": packed,
        "noise before": b"x" + plain,
        "empty": b"",
    }


def _reflagged(frame: bytes, flag: int) -> bytes:
    """Return what follows the magic, with a flag removed."""
    descriptor = bytes([frame[4] & ~flag, frame[5]])
    return descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF]) + frame[7:]


def _with_size(frame: bytes, size: int) -> bytes:
    """Return what follows the magic, with a content size."""
    descriptor = bytes([frame[4] | 8, frame[5]]) + struct.pack("<Q", size)
    return descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF]) + frame[7:]


def _lz4_of_the_library(content: bytes) -> dict[str, bytes]:
    return {
        "default of the library": lz4.frame.compress(content),
        "library, linked, 64 KB": lz4.frame.compress(
            content, block_size=lz4.frame.BLOCKSIZE_MAX64KB
        ),
        "library, independent, 64 KB": lz4.frame.compress(
            content, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
        ),
        "library, linked, 256 KB": lz4.frame.compress(
            content, block_size=lz4.frame.BLOCKSIZE_MAX256KB
        ),
        "library, with checksums": lz4.frame.compress(
            content, block_linked=False, content_checksum=True, block_checksum=True
        ),
    }


# -- zstd -----------------------------------------------------------------------------------------


def _zstd(content: bytes) -> dict[str, bytes]:
    half = len(content) // 2
    compressor = zstandard.ZstdCompressor()
    plain = compressor.compress(content)
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    unsized = stream.compress(content) + stream.flush()
    parameters = zstandard.ZstdCompressionParameters

    def window(log: int) -> bytes:
        made = parameters.from_level(3, window_log=log, write_content_size=0)
        long_stream = zstandard.ZstdCompressor(compression_params=made).compressobj()
        return long_stream.compress(content) + long_stream.flush()

    checked = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    dictionary = zstandard.ZstdCompressionDict(
        b"abcdefgh" * 100, dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )
    magicless = zstandard.ZstdCompressor(
        compression_params=parameters.from_level(3, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    )
    empty = compressor.compress(b"")
    return {
        "plain": plain,
        "no content size": unsized,
        "checksum": checked,
        "wrong checksum": checked[:-1] + bytes([checked[-1] ^ 1]),
        "checksum cut by one": checked[:-1],
        "checksum missing": checked[:-4],
        "two frames": compressor.compress(content[:half]) + compressor.compress(content[half:]),
        "three frames": b"".join(
            map(compressor.compress, (content[:9], content[9:half], content[half:]))
        ),
        "an empty frame at the begin": empty + plain,
        "an empty frame at the end": plain + empty,
        "only an empty frame": empty,
        "a skippable frame at the begin": skippable(b"abc") + plain,
        "a skippable frame of 15 at the begin": skippable(b"abc", 15) + plain,
        "an empty skippable frame at the begin": skippable(b"") + plain,
        "a large skippable frame at the begin": skippable(bytes(300_000)) + plain,
        "two skippable frames at the begin": skippable(b"abc") + skippable(b"d", 3) + plain,
        "a skippable frame at the end": plain + skippable(b"abc"),
        "a skippable frame in the middle": compressor.compress(content[:half])
        + skippable(b"abc")
        + compressor.compress(content[half:]),
        "only a skippable frame": skippable(b"abc"),
        "a skippable frame cut at the begin": skippable(bytes(9))[:-2],
        "a skippable frame cut at the end": plain + skippable(bytes(9))[:-2],
        "a skippable header cut at the end": plain + skippable(b"")[:6],
        "window of 8 MB": window(23),
        "window of 16 MB": window(24),
        "window of 128 MB": window(27),
        "window of 256 MB": window(28),
        "window of 2 GB": window(31),
        "a dictionary": zstandard.ZstdCompressor(dict_data=dictionary).compress(content),
        "no magic": magicless.compress(content),
        "zeros after the end": plain + bytes(8),
        "text after the end": plain + b"trailing bytes",
        "one byte after the end": plain + b"x",
        "half a frame at the end": plain + plain[: len(plain) // 2],
        "a header at the end": plain + plain[:6],
        "cut by one": plain[:-1],
        "cut in the middle": plain[: len(plain) // 2],
        "only a magic": plain[:4],
        "wrong content size": plain[:6] + bytes([plain[6] ^ 1]) + plain[7:],
        "legacy magic": struct.pack("<I", 0xFD2FB527) + plain[4:],
        "noise before": b"x" + plain,
        "empty": b"",
    }
