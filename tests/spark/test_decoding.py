"""Record batches to Arrow: equal to reading them record by record, whatever they hold."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from tests.records.strategies import builders, record_fields

from odradek.arrow import positions
from odradek.arrow.batches import (
    PART_BYTES_MAX,
    AbortedTransactions,
    Records,
    Scan,
    decompressed,
    scan,
)
from odradek.arrow.columns import (
    ARROW_SCHEMA,
    ARROW_SCHEMA_WITH_HEADERS,
    Decoded,
    decode_by_columns,
    decode_compiled,
    record_batch,
)
from odradek.records.batch import HEADER_SIZE, RecordBatch
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compiled import COMPILED
from odradek.records.compression import Codec
from odradek.records.control import end_of_transaction_batch
from odradek.records.errors import CorruptBatch
from odradek.records.record import iterate_records
from odradek.records.starts import append_starts
from odradek.spark.read_schema import SCHEMA, SCHEMA_WITH_HEADERS

EVERYTHING = range(1 << 62)


@st.composite
def logs(draw):
    """Batches one after the other, with gaps between and in them, as one buffer."""
    pieces = []
    position = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(0, 4))):
        builder = RecordBatchBuilder(
            base_offset=position,
            codec=draw(st.sampled_from(list(Codec))),
            log_append_time=draw(st.none() | st.integers(0, 1 << 44)),
        )
        for fields in draw(st.lists(record_fields, min_size=0, max_size=6)):
            builder.append(*fields, offset=builder.next_offset + draw(st.integers(0, 3)))
        if builder.count:
            pieces.append(bytes(builder.build()))
        position = builder.next_offset + draw(st.integers(0, 5))
    return pieces


def rows(batch: RecordBatch) -> list[dict]:
    """The records as `odradek.records` reads them, as rows of the data source."""
    kind = 1 if batch.is_log_append_time else 0
    return [
        {
            "key": None if r.key is None else bytes(r.key),
            "value": None if r.value is None else bytes(r.value),
            "topic": "flights",
            "partition": 7,
            "offset": r.offset,
            "timestamp": r.timestamp,
            "timestampType": kind,
            "headers": [{"key": k, "value": v} for k, v in r.headers] or None,
        }
        for r in iterate_records(batch)
    ]


def whole(found: Scan) -> Records:
    """The records of all batches in one part."""
    (records,) = decompressed(found, PART_BYTES_MAX)
    return records


def assert_alike(found: Decoded, expected: Decoded) -> None:
    for column, expected_column in zip(found, expected, strict=True):
        assert column == expected_column
        if column is not None:
            column.validate(full=True)


def decoded(buffer: bytes, offsets: range = EVERYTHING, part_bytes: int = 100) -> list[dict]:
    parts = list(decompressed(scan(buffer, offsets.start, offsets.stop), part_bytes))
    for each in parts:
        assert_alike(decode_compiled(each, offsets), decode_by_columns(each, offsets, False))
    batches = [record_batch(each, "flights", 7, offsets, True) for each in parts]
    found = pa.Table.from_batches(batches, ARROW_SCHEMA_WITH_HEADERS)
    found.validate(full=True)
    times = found.column("timestamp").cast(pa.int64())
    milliseconds = pa.array([-1 if t is None else t // 1000 for t in times.to_pylist()])
    return found.set_column(5, "timestamp", milliseconds).to_pylist()


@given(logs(), st.sampled_from([1, 30, 200, PART_BYTES_MAX]))
def test_a_log_decodes_to_the_rows_that_the_records_package_reads(pieces, part_bytes):
    expected = [row for piece in pieces for row in rows(RecordBatch(piece))]
    assert decoded(b"".join(pieces), part_bytes=part_bytes) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_a_part_has_the_next_batches_only(codec):
    log = b""
    for base in range(0, 40, 10):
        builder = RecordBatchBuilder(base_offset=base, codec=codec)
        for _ in range(10):
            builder.append(1, None, b"x" * 1000)
        log += bytes(builder.build())
    parts = decompressed(scan(log, 0, 40), 15_000)
    first = next(parts)
    assert first.sections.base_offset.tolist() in ([0], [0, 10])
    if codec:
        assert len(first.payload) < 21_000
    counts = [len(first.sections.start), *(len(each.sections.start) for each in parts)]
    assert sum(counts) == 4
    assert len(counts) > 1


@given(logs(), st.data())
def test_only_offsets_asked_for_come_out_and_a_cut_batch_is_left_for_the_next_fetch(pieces, data):
    buffer = b"".join(pieces)
    expected = [row for piece in pieces for row in rows(RecordBatch(piece))]
    first = expected[0]["offset"] if expected else 0
    start = data.draw(st.integers(max(0, first - 3), first + 30))
    end = start + data.draw(st.integers(0, 30))
    inside = [row for row in expected if start <= row["offset"] < end]
    assert decoded(buffer, range(start, end)) == inside

    cut = data.draw(st.integers(0, len(buffer)))
    found = scan(buffer[:cut], 0, 1 << 62)
    whole = [p for i, p in enumerate(pieces) if sum(map(len, pieces[: i + 1])) <= cut]
    assert found.next_offset == (RecordBatch(whole[-1]).next_offset if whole else 0)


@given(st.lists(st.lists(record_fields, min_size=1, max_size=20), min_size=1, max_size=5))
def test_lockstep_and_walking_find_the_same_records(many):
    buffer = b""
    for some in many:
        builder = RecordBatchBuilder(base_offset=0)
        for fields in some:
            builder.append(*fields)
        buffer += bytes(builder.build())
    found = scan(buffer, 0, 1 << 62)
    walked: list[int] = []
    sections = found.sections
    for start, end, count in zip(sections.start, sections.end, sections.record_count, strict=True):
        append_starts(bytes(found.buffer), int(start), int(end), int(count), walked)
    stepped = positions._starts_in_lockstep(np.frombuffer(found.buffer, np.uint8), found.sections)
    assert stepped.tolist() == walked


def test_many_batches_go_in_lockstep():
    generator = random.Random(5)
    buffer, expected = b"", []
    for number in range(positions.LOCKSTEP_WIDTH_MIN * 3):
        builder = RecordBatchBuilder(base_offset=100 * number)
        for _ in range(1 + number % 3):
            builder.append(1_000 + number, None, generator.randbytes(generator.randrange(300)))
        buffer += bytes(builder.build())
        expected += rows(RecordBatch(bytes(builder.build())))
    assert decoded(buffer) == expected


def test_lengths_of_every_width():
    builder = RecordBatchBuilder()
    for size in (0, 1, 62, 63, 64, 8190, 8192, 1 << 20, (1 << 21) + 5):
        builder.append(-1, b"k", b"v" * size)
    piece = bytes(builder.build())
    assert decoded(piece) == rows(RecordBatch(piece))


@st.composite
def damaged_batches(draw):
    """A batch in which some bytes of the records are others, and its base offset.

    Its checksum is right: that proves that the sender meant it, not that it makes sense.
    """
    builder = draw(builders(st.just(Codec.NONE)))
    for fields in draw(st.lists(record_fields, min_size=1, max_size=5)):
        builder.append(*fields)
    batch = bytearray(builder.build())
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(HEADER_SIZE, len(batch) - 1))
        batch[where] = draw(st.integers(0, 255))
    seal(batch)
    return bytes(batch), RecordBatch(bytes(batch)).base_offset


@given(damaged_batches())
def test_damaged_records_are_refused_or_read_but_never_crash(damage):
    batch, start = damage
    found = scan(batch, start, start + 1000)
    for lockstep in (False, True):
        try:
            if lockstep:
                positions._starts_in_lockstep(np.frombuffer(batch, np.uint8), found.sections)
            else:
                record_batch(whole(found), "t", 0, range(start, start + 1000), True)
        except CorruptBatch:
            continue


@pytest.mark.skipif(not COMPILED, reason="numbers of more than 64 bits do not wrap in pure Python")
@given(damaged_batches())
def test_the_compiled_loop_and_numpy_refuse_the_same_damaged_records(damage):
    batch, start = damage
    damaged = whole(scan(batch, start, start + 1000))
    found: list[Decoded | None] = []
    for decode in (decode_compiled, partial(decode_by_columns, include_headers=False)):
        try:
            found.append(decode(damaged, range(start, start + 1000)))
        except CorruptBatch:
            found.append(None)
    if found[0] is None or found[1] is None:
        assert found == [None, None]
    else:
        assert_alike(found[0], found[1])


def test_offsets_that_were_compacted_away_are_stepped_over():
    log = b""
    for base in (10, 50):
        builder = RecordBatchBuilder(base_offset=base)
        builder.append(1, None, b"value")
        log += bytes(builder.build())
    assert scan(log, 0, 40).next_offset == 40, "nothing is left between 11 and 40"
    assert scan(log, 20, 40).next_offset == 40
    assert scan(log, 0, 11).next_offset == 11
    assert scan(log, 0, 60).next_offset == 51, "there may be more to come"


def test_a_wrong_checksum_and_an_old_format_are_errors():
    builder = RecordBatchBuilder()
    builder.append(1, None, b"value")
    batch = bytearray(builder.build())
    batch[-1] ^= 0x40
    with pytest.raises(CorruptBatch, match="checksum"):
        scan(bytes(batch), 0, 10)
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="format 1"):
        scan(bytes(batch), 0, 10)


def test_a_count_that_the_bytes_cannot_hold_is_refused():
    builder = RecordBatchBuilder()
    builder.append(1, None, b"value")
    batch = bytearray(builder.build())
    batch[57:61] = (1 << 30).to_bytes(4, "big")
    seal(batch)
    with pytest.raises(CorruptBatch, match="record count of a batch is larger"):
        whole(scan(bytes(batch), 0, 10))


def transactional(offset: int, producer: int, value: bytes) -> bytes:
    builder = RecordBatchBuilder(
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    builder.append(1, None, value)
    return bytes(builder.build())


def marker(offset: int, producer: int, committed: bool) -> bytes:
    batch = end_of_transaction_batch(
        committed, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    batch[0:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def test_aborted_transactions_and_markers_are_left_out():
    log = b"".join(
        (
            transactional(0, 1, b"aborted"),
            transactional(1, 2, b"committed, between"),
            marker(2, 2, committed=True),
            transactional(3, 1, b"aborted too"),
            marker(4, 1, committed=False),
            transactional(5, 1, b"the same producer, committed"),
            marker(6, 1, committed=True),
        )
    )
    committed = scan(log, 0, 7, AbortedTransactions([(1, 0)]))
    values = record_batch(whole(committed), "t", 0, range(7), False).column("value").to_pylist()
    assert values == [b"committed, between", b"the same producer, committed"]
    assert committed.next_offset == 7
    uncommitted = record_batch(whole(scan(log, 0, 7)), "t", 0, range(7), False)
    assert uncommitted.column("offset").to_pylist() == [0, 1, 3, 5]


def test_header_names_that_are_not_utf8_are_replaced():
    builder = RecordBatchBuilder()
    builder.append(1, None, b"v", [("n_m", b"x")])
    batch = builder.build()
    where = batch.index(b"n_m")
    batch[where + 1] = 0xFF
    seal(batch)
    assert decoded(bytes(batch))[0]["headers"] == [{"key": "n\ufffdm", "value": b"x"}]


def test_the_arrow_schema_is_what_spark_expects():
    assert to_arrow_schema(SCHEMA, timezone="UTC").equals(ARROW_SCHEMA)
    assert to_arrow_schema(SCHEMA_WITH_HEADERS, timezone="UTC").equals(ARROW_SCHEMA_WITH_HEADERS)
