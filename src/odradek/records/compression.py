"""The compression codecs of record batches, compatible with Apache Kafka's Java client.

A payload is compressed in one piece. `decompress_pieces` decompresses in pieces. So a payload that
expands to gigabytes needs only the memory of one piece. `decompress` first tries to decompress the
whole payload in one step, which takes about half the time (the functions `_whole_...`). This
succeeds for the payloads that producers send: one frame whose content is not larger than the limit.
All other payloads, and all errors, are left to `decompress_pieces`.

A payload of another library is read if Java's readers can read it, with few exceptions: see
docs/decisions/log-record-validation.md.

- gzip: a gzip stream without name or time. `isal` decompresses it, if it is installed, in a third of
  the time that `zlib` takes. Several streams one after the other (members) are one payload. Bytes
  after the last one are ignored, as by Java's GZIPInputStream.
- snappy: blocks of 32 KB in the framing of snappy-java. A header of 16 bytes (`0x82 SNAPPY 0x00`,
  version 1, compatible version 1) is followed by the length and the bytes of each block. A block
  without framing, as librdkafka may send, can be read too. A header may also stand between blocks.
- lz4: a frame of independent 64 KB blocks without checksums of the content. Linked blocks are the
  default of most libraries, but Java cannot read them. Bytes after the frame are ignored.
- zstd: a frame. Several frames, and skippable frames, can be read too.

A codec's library is imported when the codec is first used, because most brokers never compress.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from odradek.records.errors import DecompressionLimit, InvalidRecords

Buffer = bytes | bytearray | memoryview

PIECE_SIZE: Final = 65_536
"""Maximum size of a decompressed piece in bytes. A snappy block may be larger."""

SNAPPY_HEADER: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_MAGIC: Final = SNAPPY_HEADER[:8]
_SNAPPY_BLOCK_SIZE: Final = 32_768
_SNAPPY_EXPANSION_MAX: Final = 24
"""Limit of the ratio between the sizes of a snappy block after and before decompression. Three
bytes encode a copy of at most 64 bytes, so the ratio is never above 21.4."""
_SNAPPY_MAGIC_BEGIN: Final = int.from_bytes(SNAPPY_HEADER[:4], "big", signed=True)
"""The begin of another header, read as the length of a block."""
_SNAPPY_MINIMUM_VERSION: Final = 1
_GZIP_FLAGS_POSITION: Final = 3
_GZIP_RESERVED: Final = 0xE0
_GZIP_HEADER_SIZE: Final = 10
_GZIP_HEADER_CRC: Final = 0x02
_GZIP_EXTRA: Final = 0x04
_GZIP_TEXTS: Final = (0x08, 0x10)
"""The flags of a name and a comment."""
_LZ4_WHOLE_MAX: Final = 2 << 20
"""Larger payloads are decompressed in pieces, because the library allocates the limit twice."""
_ZSTD_REPEATED: Final = 1
"""The type of a block that repeats one byte."""
_ZSTD_SKIPPABLE: Final = 0x184D2A5
"""The magic of a skippable frame, without its last four bits."""
_ZSTD_SKIPPABLE_HEADER_SIZE: Final = 8
_LZ4_FLAGS_POSITION: Final = 4
_LZ4_HEADER_MIN: Final = 7
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUMS: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_UNKNOWN_TO_JAVA: Final = 0x03
"""A dictionary, and a reserved bit."""
_LZ4_NOT_COMPRESSED: Final = 0x80000000
_UINT32: Final = Struct("<I")
_INT32: Final = Struct(">i")
_TOO_MANY: Final = "the records take more than {} bytes"


class Codec(IntEnum):
    """The number of a codec in a batch's attributes. Settings have the name in lower case."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LZ4_LEVEL_DEFAULT: Final = 9
"""At this level Apache Kafka uses the fast compressor of lz4; at other levels, the thorough one."""
_LEVEL_DEFAULT: Final = {Codec.GZIP: -1, Codec.LZ4: LZ4_LEVEL_DEFAULT, Codec.ZSTD: 3}


def codec_named(name: str) -> Codec:
    """Return the codec with the name in a setting or option.

    `none` and `uncompressed` mean the same.

    Raises:
        ValueError: there is no such codec.
    """
    if name == "uncompressed":
        return Codec.NONE
    try:
        return Codec[name.upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Codec)
        raise ValueError(f"{name!r} is not a compression codec: expected one of {known}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data`. The same input gives the same bytes. None is the codec's default level."""
    if level is None:
        level = _LEVEL_DEFAULT.get(codec, 0)
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            stream = zlib.compressobj(level, zlib.DEFLATED, 31)
            return stream.compress(data) + stream.flush()
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=level).compress(data)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [SNAPPY_HEADER]
    for start in range(0, len(view), _SNAPPY_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_SIZE]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    from lz4 import frame

    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level == LZ4_LEVEL_DEFAULT else min(max(level, 3), 12),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        store_size=False,
    )
    return compressed


def decompress(codec: int, data: Buffer, limit_bytes: int) -> bytes:
    """Decompress the whole payload.

    Raises:
        DecompressionLimit: the result is larger than `limit_bytes`.
        InvalidRecords: the codec is unknown or cannot read the data.
    """
    read_whole = _WHOLE.get(codec)
    if read_whole is not None and limit_bytes > 0:
        whole = read_whole(data, limit_bytes)
        if whole is not None:
            return whole
    parts = []
    total = 0
    for piece in decompress_pieces(codec, data):
        total += len(piece)
        if total > limit_bytes:
            raise DecompressionLimit(_TOO_MANY.format(limit_bytes))
        parts.append(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompress_pieces(codec: int, data: Buffer) -> Iterator[bytes]:
    """Decompress piece by piece. For truncated data, yield the readable part, then raise.

    Raises:
        InvalidRecords: the codec is unknown or cannot read the data.
    """
    reader = _READERS.get(codec)
    if reader is None:
        raise InvalidRecords(f"there is no compression codec {codec}")
    return reader(data)


def _read_plain(data: Buffer) -> Iterator[bytes]:
    yield bytes(data)


def _gzip_library() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


def _has_reserved_gzip_flags(data: Buffer) -> bool:
    """`isal` ignores them, `zlib` does not: a consumer that uses it cannot read such records."""
    return len(data) > _GZIP_FLAGS_POSITION and data[_GZIP_FLAGS_POSITION] & _GZIP_RESERVED != 0


def _has_gzip_header(view: memoryview, begin: int) -> bool:
    """Return whether a complete header begins there. If not, Java ignores the rest of the payload."""
    position = begin + _GZIP_HEADER_SIZE
    if len(view) < position or bytes(view[begin : begin + 3]) != b"\x1f\x8b\x08":
        return False
    flags = view[begin + _GZIP_FLAGS_POSITION]
    if flags & _GZIP_EXTRA:
        if position + 2 > len(view):
            return False
        position += 2 + (view[position] | view[position + 1] << 8)
    rest = bytes(view[position:]) if flags & (_GZIP_TEXTS[0] | _GZIP_TEXTS[1]) else b""
    for flag in _GZIP_TEXTS:
        if flags & flag:
            length = rest.find(b"\0") + 1
            if length == 0:
                return False
            rest = rest[length:]
            position += length
    if flags & _GZIP_HEADER_CRC:
        crc = zlib.crc32(view[begin:position]) & 0xFFFF
        if bytes(view[position : position + 2]) != crc.to_bytes(2, "little"):
            return False
        position += 2
    return position <= len(view)


def _whole_gzip(data: Buffer, limit_bytes: int) -> bytes | None:
    if _has_reserved_gzip_flags(data):
        return None
    library = _gzip_library()
    stream = library.decompressobj(31)
    try:
        whole: bytes = stream.decompress(data, limit_bytes + 1)
    except library.error:
        return None
    if len(whole) > limit_bytes:
        raise DecompressionLimit(_TOO_MANY.format(limit_bytes))
    return whole if stream.eof and not stream.unused_data else None


def _read_gzip(data: Buffer) -> Iterator[bytes]:
    library = _gzip_library()
    view = memoryview(data)
    begin, size = 0, len(view)
    try:
        while True:
            if _has_reserved_gzip_flags(view[begin:]):
                raise InvalidRecords("gzip cannot read the records: reserved flags are set")
            stream = library.decompressobj(31)
            piece = stream.decompress(view[begin:], PIECE_SIZE)
            while piece:
                yield piece
                piece = stream.decompress(stream.unconsumed_tail, PIECE_SIZE)
            if not stream.eof:
                raise InvalidRecords("the gzip stream of the records is truncated")
            begin = size - len(stream.unused_data)
            if not _has_gzip_header(view, begin):
                return
    except library.error as error:
        raise InvalidRecords(f"gzip cannot read the records: {error}") from None


def _read_snappy(data: Buffer) -> Iterator[bytes]:
    view = memoryview(data)
    if view[:8] != _SNAPPY_MAGIC:
        yield _snappy_block(view)
        return
    position = len(SNAPPY_HEADER)
    while len(view) - position >= _INT32.size:
        size: int = _INT32.unpack_from(view, position)[0]
        if size == _SNAPPY_MAGIC_BEGIN:
            _check_snappy_header(view[position : position + len(SNAPPY_HEADER)])
            position += len(SNAPPY_HEADER)
            continue
        position += _INT32.size
        if size < 0 or size > len(view) - position:
            raise InvalidRecords(f"a snappy block of {size} bytes is truncated")
        yield _snappy_block(view[position : position + size])
        position += size


def _check_snappy_header(header: memoryview) -> None:
    """Check a header between blocks. As in Java, the version matters only here."""
    if len(header) < len(SNAPPY_HEADER) or header[:8] != _SNAPPY_MAGIC:
        raise InvalidRecords("a snappy header of the records is damaged")
    version = _INT32.unpack_from(header, 8)[0]
    if version < _SNAPPY_MINIMUM_VERSION:
        raise InvalidRecords(f"snappy cannot read version {version} of the records")


def _snappy_block(block: memoryview) -> bytes:
    import cramjam

    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > _SNAPPY_EXPANSION_MAX * len(block) + 64:
            raise InvalidRecords(f"a snappy block of {len(block)} bytes cannot hold {claimed}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InvalidRecords(f"snappy cannot read the records: {error}") from None


def _java_reads_lz4(view: memoryview) -> bool:
    """Return whether Java's reader finds the same blocks in a frame as the library.

    It refuses linked blocks and dictionaries. An empty block that is not compressed is the end for
    it, and a consumer reads what is not there after a compressed one (which has one byte).
    """
    size = len(view)
    if size < _LZ4_HEADER_MIN:
        return True
    flags = view[_LZ4_FLAGS_POSITION]
    if not flags & _LZ4_INDEPENDENT or flags & _LZ4_UNKNOWN_TO_JAVA:
        return False
    position = _LZ4_HEADER_MIN + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    is_empty = False
    after = 8 if flags & _LZ4_BLOCK_CHECKSUMS else 4
    while position + 4 <= size:
        length: int = _UINT32.unpack_from(view, position)[0]
        if length == 0:
            return True
        if length == _LZ4_NOT_COMPRESSED or is_empty:
            return False
        is_empty = length == 1
        position += (length & ~_LZ4_NOT_COMPRESSED) + after
    return True  # truncated


def _whole_lz4(data: Buffer, limit_bytes: int) -> bytes | None:
    from lz4.frame import LZ4FrameDecompressor

    if not _java_reads_lz4(memoryview(data)):
        return None
    stream = LZ4FrameDecompressor()
    try:
        whole: bytes = stream.decompress(data, min(limit_bytes + 1, _LZ4_WHOLE_MAX))
    except RuntimeError:
        return None
    if len(whole) > limit_bytes:
        raise DecompressionLimit(_TOO_MANY.format(limit_bytes))
    return whole if stream.eof and not stream.unused_data else None


def _read_lz4(data: Buffer) -> Iterator[bytes]:
    from lz4.frame import LZ4FrameDecompressor

    if not _java_reads_lz4(memoryview(data)):
        raise InvalidRecords(
            "Java cannot read the lz4 frame of the records: it needs independent blocks, no "
            "dictionary, and no empty block"
        )
    stream = LZ4FrameDecompressor()
    try:
        piece = stream.decompress(data, PIECE_SIZE)
        while piece or not (stream.eof or stream.needs_input):
            yield piece
            if stream.eof:
                return
            piece = stream.decompress(b"", PIECE_SIZE)
    except RuntimeError as error:
        raise InvalidRecords(f"lz4 cannot read the records: {error}") from None
    if not stream.eof:
        raise InvalidRecords("the lz4 frame of the records is truncated")


_idle_zstd_decompressors: Final[list[Any]] = []
"""Creating one takes half as long as it needs for a batch. No two threads may use the same one."""


def _whole_zstd(data: Buffer, limit_bytes: int) -> bytes | None:
    import zstandard

    view = memoryview(data)
    try:
        # The library ignores what follows the first frame.
        if _zstd_frame_end(view, 0) != len(view):
            return None
        size = zstandard.frame_content_size(view)  # -1: the frame does not have the size
        if size > limit_bytes:
            raise DecompressionLimit(_TOO_MANY.format(limit_bytes))
        if size == 0:
            return None
        try:
            decompressor = _idle_zstd_decompressors.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        whole: bytes = decompressor.decompress(view, max_output_size=limit_bytes)
        _idle_zstd_decompressors.append(decompressor)
    except (zstandard.ZstdError, MemoryError):
        return None
    return whole


def _read_zstd(data: Buffer) -> Iterator[bytes]:
    import zstandard

    reader: Any = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        while piece := reader.read(PIECE_SIZE):
            yield piece
        is_whole = _ends_with_zstd_frame(data)
    except (zstandard.ZstdError, MemoryError) as error:
        raise InvalidRecords(f"zstd cannot read the records: {error}") from None
    if not is_whole:
        raise InvalidRecords("the zstd frame of the records is truncated")


def _ends_with_zstd_frame(data: Buffer) -> bool:
    """Return whether the last frame is complete. The library's stream does not report this."""
    view = memoryview(data)
    position = 0
    while 0 <= position < len(view):
        position = _zstd_frame_end(view, position)
    return position == len(view)


def _zstd_frame_end(view: memoryview, position: int) -> int:
    """Return the position after the frame at `position`; -1 if the frame is truncated.

    A skippable frame consists of a magic, a length and so many bytes. Another frame consists of a header, blocks, and optionally a checksum (RFC 8878). Each block has a
    header of three bytes.

    Raises:
        zstandard.ZstdError: there is no frame.
    """
    import zstandard

    end = len(view)
    if end - position >= _ZSTD_SKIPPABLE_HEADER_SIZE:
        magic: int = _UINT32.unpack_from(view, position)[0]
        if magic >> 4 == _ZSTD_SKIPPABLE:
            length: int = _UINT32.unpack_from(view, position + 4)[0]
            position += _ZSTD_SKIPPABLE_HEADER_SIZE + length
            return position if position <= end else -1
    size = zstandard.frame_header_size(view[position:])
    has_checksum = view[position + 4] & 0x04
    position += size
    is_last = 0
    while not is_last:
        if position + 3 > end:
            return -1
        block = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last = block & 1
        size = 1 if block >> 1 & 3 == _ZSTD_REPEATED else block >> 3
        position += 3 + size
    if has_checksum:
        position += 4
    return position if position <= end else -1


_WHOLE: Final[dict[int, Callable[[Buffer, int], bytes | None]]] = {
    Codec.GZIP: _whole_gzip,
    Codec.LZ4: _whole_lz4,
    Codec.ZSTD: _whole_zstd,
}
"""These return None for what they leave to the readers. If the payload is damaged and too large, they
may raise DecompressionLimit where the readers raise InvalidRecords."""
_READERS: Final[dict[int, Callable[[Buffer], Iterator[bytes]]]] = {
    Codec.NONE: _read_plain,
    Codec.GZIP: _read_gzip,
    Codec.SNAPPY: _read_snappy,
    Codec.LZ4: _read_lz4,
    Codec.ZSTD: _read_zstd,
}
