from __future__ import annotations

import random
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records import compression
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import (
    Codec,
    codec_named,
    compress,
    decompress,
    decompress_pieces,
)
from odradek.records.errors import DecompressionLimit, InvalidRecords
from odradek.records.record import iterate_records

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
LEVELS = {Codec.GZIP: (1, 6, 9), Codec.LZ4: (1, 9, 17), Codec.ZSTD: (-5, 1, 19), Codec.SNAPPY: ()}


@given(st.sampled_from(list(Codec)), st.binary(max_size=3000), st.integers(1, 60))
def test_round_trip(codec, data, times):
    data *= times
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    assert bytes(compress(codec, memoryview(data))) == bytes(compressed)


@pytest.mark.parametrize(
    ("codec", "level"), [(codec, level) for codec in COMPRESSING for level in LEVELS[codec]]
)
def test_levels(codec, level):
    data = bytes(range(256)) * 500
    assert decompress(codec, compress(codec, data, level), len(data)) == data


@pytest.mark.parametrize("flag", [0x20, 0x40, 0x80])
def test_reserved_flags_of_gzip_are_refused(flag):
    payload = bytearray(compress(Codec.GZIP, b"content"))
    payload[3] |= flag
    with pytest.raises(InvalidRecords, match="gzip cannot read"):
        decompress(Codec.GZIP, payload, 100)


@settings(max_examples=400)
@given(
    st.sampled_from(COMPRESSING),
    st.binary(max_size=300),
    st.integers(1, 300),
    st.data(),
)
def test_whole_payloads_and_pieces_have_the_same_result(codec, content, times, data):
    """Of valid, truncated, changed and extended payloads, below and above the limit."""
    content *= times
    payload = bytearray(compress(codec, content))
    if codec is Codec.ZSTD and data.draw(st.booleans()):  # as Java's streams write it
        stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        payload = bytearray(stream.compress(content) + stream.flush())
    match data.draw(st.sampled_from(["valid", "truncated", "changed", "extended", "twice"])):
        case "truncated":
            del payload[data.draw(st.integers(0, len(payload))) :]
        case "changed":
            for _ in range(data.draw(st.integers(1, 3))):
                payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(
                    st.integers(1, 255)
                )
        case "extended":
            payload += data.draw(st.binary(min_size=1, max_size=20))
        case "twice":
            payload *= 2
    limit = max(1, len(content) + data.draw(st.integers(-2, 2)))

    def result():
        try:
            return decompress(codec, payload, limit)
        except InvalidRecords:  # or DecompressionLimit, if the payload is also too large
            return None

    whole = result()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compression, "_WHOLE", {})
        pieces = result()
        assert whole == pieces
        if codec is Codec.GZIP:
            patched.setattr(compression, "_gzip_library", lambda: zlib)
            assert pieces == result()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_costs_no_more_than_the_limit(codec):
    bomb = compress(codec, bytes(64 << 20))
    decompress(codec, compress(codec, b"the library is loaded"), 100)
    tracemalloc.start()
    with pytest.raises(DecompressionLimit):
        decompress(codec, bomb, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20


def test_a_snappy_block_cannot_claim_more_than_it_can_hold():
    lie = b"\xff\xff\xff\xff\x0f" + bytes(100)  # 4 GB in 105 bytes
    with pytest.raises(InvalidRecords, match="cannot hold"):
        decompress(Codec.SNAPPY, lie, 1 << 40)


def test_snappy_without_framing_is_read():
    from cramjam import snappy

    assert decompress(Codec.SNAPPY, bytes(snappy.compress_raw(b"abc" * 99)), 1000) == b"abc" * 99


def test_a_gzip_of_several_members_is_read():
    assert (
        decompress(Codec.GZIP, compress(Codec.GZIP, b"a") + compress(Codec.GZIP, b"b"), 9) == b"ab"
    )


@given(st.sampled_from(COMPRESSING), st.binary(min_size=1, max_size=400))
def test_noise_is_refused_or_gives_bytes(codec, noise):
    try:
        assert isinstance(decompress(codec, noise, 1 << 20), bytes)
    except InvalidRecords:
        pass


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("missing", [1, 4, 9])
def test_what_was_cut_off_is_missed(codec, missing):
    builder = RecordBatchBuilder(codec=codec)
    for number in range(500):
        builder.append(number, b"key %d" % number, b"value %d" % (number * 7919))
    data = bytes(builder.build())
    batch = RecordBatch(data)
    assert len(list(iterate_records(batch))) == 500
    batch.data = memoryview(data[:-missing])
    with pytest.raises(InvalidRecords):
        list(iterate_records(batch))


@pytest.mark.parametrize("size", [1, 10, 5000, 300_000])
@pytest.mark.parametrize("checksum", [True, False])
def test_zstd_frames_have_an_end(size, checksum):
    """A stream that was flushed, and not ended, has all its bytes; Java's reader refuses it."""
    compressor = zstandard.ZstdCompressor(write_checksum=checksum)
    content = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    whole = compressor.compress(content)
    assert decompress(Codec.ZSTD, whole, 1 << 20) == content
    assert decompress(Codec.ZSTD, whole + whole, 1 << 20) == content + content
    stream = compressor.compressobj()
    unfinished = stream.compress(content) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    for data in (unfinished, whole + unfinished, whole + whole[:3]):
        with pytest.raises(InvalidRecords):
            decompress(Codec.ZSTD, data, 1 << 20)
    ended = unfinished + stream.flush()
    assert decompress(Codec.ZSTD, ended, 1 << 20) == content


def test_an_unknown_codec_is_refused():
    with pytest.raises(InvalidRecords, match="codec 5"):
        decompress_pieces(5, b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_record_larger_than_the_limit_is_not_put_together(codec):
    builder = RecordBatchBuilder(codec=codec)
    builder.append(0, None, bytes(32 << 20))
    data = builder.build()
    tracemalloc.start()
    with pytest.raises(DecompressionLimit):
        list(iterate_records(RecordBatch(data), limit_bytes=1 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20
    assert [len(r.value) for r in iterate_records(RecordBatch(data))] == [32 << 20]


def test_names():
    assert codec_named("uncompressed") is Codec.NONE
    assert codec_named("none") is Codec.NONE
    assert codec_named("zstd") is Codec.ZSTD
    with pytest.raises(ValueError, match="gzip, snappy, lz4, zstd"):
        codec_named("brotli")


def test_gzip_is_what_any_gzip_reads():
    assert zlib.decompress(compress(Codec.GZIP, b"plain"), 31) == b"plain"
