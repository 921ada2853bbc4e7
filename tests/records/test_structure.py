"""The check for plain batches, and skimming, compared with what a consumer reads."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.records.batch import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD, SIZE, RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec, compress
from odradek.records.errors import DecompressionLimit, InvalidRecords, RecordsError
from odradek.records.record import iterate_records
from odradek.records.skim import Skimmed, skim_records
from odradek.records.structure import has_plain_records

NOW_MS = 1_700_000_000_000
LIMIT = 1 << 24

fields = st.one_of(st.none(), st.binary(max_size=12), st.integers(0, 20_000).map(bytes))
headers = st.lists(st.tuples(st.text(max_size=4), st.one_of(st.none(), st.binary(max_size=4))))
times = st.integers(-(2**40), 2**40) | st.integers(-200, 20_000)
unalike = st.lists(st.tuples(times, fields, fields, headers), min_size=1, max_size=12)


@st.composite
def alike(draw):
    """Many records of one shape, with what breaks a shape now and then."""
    value_size, key_size, count = (
        draw(st.integers(0, 300)),
        draw(st.integers(0, 70)),
        draw(st.integers(1, 400)),
    )
    step = draw(st.sampled_from([0, 1, 7, 100, 9000]))
    some_headers = draw(headers)
    records = [
        (number * step // 3, bytes(key_size) or None, bytes(value_size), some_headers)
        for number in range(count)
    ]
    for at in draw(st.lists(st.integers(0, count - 1), max_size=3)):
        records[at] = (draw(times), *draw(unalike)[0][1:])
    return records


def build(records, codec=Codec.NONE):
    builder = RecordBatchBuilder(codec=codec)
    for time, key, value, some_headers in records:
        builder.append(NOW_MS + time, key, value, some_headers)
    return builder.build()


def is_plain(data, *, need_keys=False):
    batch = RecordBatch(data)
    max_delta = batch.max_timestamp - batch.base_timestamp
    return has_plain_records(data, batch.codec, batch.count, max_delta, need_keys)


def by_consumer(batch):
    """What a consumer reads; None if it cannot."""
    try:
        return [
            Skimmed(record.offset, record.timestamp, record.key is not None)
            for record in iterate_records(batch)
        ]
    except RecordsError:
        return None


def by_skimming(batch):
    try:
        return list(skim_records(batch, LIMIT))
    except RecordsError:
        return None


@given(unalike | alike(), st.sampled_from(list(Codec)))
def test_what_producers_send_is_plain(records, codec):
    data = build(records, codec)
    assert is_plain(data)
    assert is_plain(data, need_keys=True) == all(key is not None for _, key, _, _ in records)
    batch = RecordBatch(data)
    assert by_skimming(batch) == by_consumer(batch)


@settings(max_examples=400)
@given(unalike | alike(), st.data())
def test_what_is_plain_can_be_read_as_it_says(records, data):
    damaged = build(records)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(HEADER_SIZE, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    batch = RecordBatch(damaged)
    read = by_consumer(batch)
    assert by_skimming(batch) == read
    if is_plain(damaged):
        assert read is not None
        assert [each.offset_delta for each in read] == list(range(batch.count))
        assert max(each.timestamp for each in read) == batch.max_timestamp
        assert not is_plain(damaged, need_keys=True) or all(each.has_key for each in read)


@given(unalike | alike(), st.sampled_from(list(Codec)), st.data())
def test_what_was_cut_or_has_a_tail_is_refused(records, codec, data):
    whole = build(records, codec)
    size = data.draw(st.integers(HEADER_SIZE, len(whole) + 3).filter(lambda n: n != len(whole)))
    changed = (whole + b"\0\0\0")[:size]
    SIZE.pack_into(changed, LENGTH_POSITION, size - LOG_OVERHEAD)
    batch = RecordBatch(changed)
    if codec is Codec.NONE:
        assert not is_plain(changed)
        assert by_skimming(batch) is None
    else:  # a codec may not need its last bytes
        assert by_skimming(batch) == by_consumer(batch)
        assert not is_plain(changed) or by_consumer(batch) is not None


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 66, 8191, 8192, 8193, 9000, 20_000])
@pytest.mark.parametrize("step", [0, 1, 40])
def test_offsets_and_times_of_every_width(count, step):
    data = build([(number * step, None, b"v", ()) for number in range(count)])
    assert is_plain(data)
    batch = RecordBatch(data)
    assert not has_plain_records(data, 0, count, batch.max_timestamp - NOW_MS + 1)
    if step and count > 1:
        assert not has_plain_records(data, 0, count, batch.max_timestamp - NOW_MS - 1)
    for wrong in (count - 1, count + 1, 2**31 - 1, -1):
        assert not has_plain_records(data, 0, wrong, batch.max_timestamp - NOW_MS)


@pytest.mark.parametrize("number", [0, 1, 40, 63, 64, 65, 126, 127, 128, 299])
def test_one_offset_among_equal_records_is_wrong(number):
    builder = RecordBatchBuilder()
    for each in range(300):
        builder.append(NOW_MS, b"key", b"value", offset=each + (each >= number))
    data = builder.build()
    assert not is_plain(data)
    assert [each.offset_delta for each in skim_records(RecordBatch(data), LIMIT)] != list(
        range(300)
    )


@pytest.mark.parametrize("late", [0, 1, 31, 150, 298])
def test_a_timestamp_later_than_said_among_equal_records(late):
    records = [(1000 + number, b"key", b"value", ()) for number in range(300)]
    records[late] = (1300, b"key", b"value", ())
    data = build(records)
    max_delta = RecordBatch(data).max_timestamp - RecordBatch(data).base_timestamp
    assert is_plain(data)
    assert not has_plain_records(data, 0, 300, max_delta - 1)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_skimming_reports(codec):
    good = build([(0, b"key", b"value", [("h", b"x")])])[HEADER_SIZE:]
    for payload, said in (
        (good[:-1], "ends inside"),
        (good + good, "more than the 1 records"),
        (b"\x01" + good[1:], "says that it has -1 bytes"),
        (bytes([good[0] - 2]) + good[1:], "a record of"),
        (good.replace(b"\x02h\x02x", b"\x01\x01h\x02"), "a header has no key"),
        (good.replace(b"\x02\x02h", b"\x7e\x02h"), "cannot have 63 headers"),
        (b"", "ends inside"),
        (b"\xff" * 40, "longer than 5 bytes"),
    ):
        head = build([(0, b"key", b"value", ())], codec)[:HEADER_SIZE]
        changed = head + bytes(compress(codec, payload))
        SIZE.pack_into(changed, LENGTH_POSITION, len(changed) - LOG_OVERHEAD)
        assert not is_plain(changed)
        with pytest.raises(InvalidRecords, match=said):
            list(skim_records(RecordBatch(changed), LIMIT))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("value_size", [15 << 20, 64 << 20])
def test_a_record_costs_no_memory_whatever_its_size(codec, value_size):
    data = build([(0, None, bytes(value_size), ())], codec)
    batch = RecordBatch(data)
    compress(codec, bytes(10))  # loads the library
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit):
            is_plain(data)
        if value_size < LIMIT:
            assert list(skim_records(batch, LIMIT)) == [Skimmed(0, NOW_MS, False)]
        else:
            with pytest.raises(DecompressionLimit, match="take more than"):
                list(skim_records(batch, LIMIT))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(data) + (6 << 20)


@example(b"\x00" * 7)
@given(st.binary(max_size=200))
def test_noise(noise):
    data = build([(0, None, None, ())])[:HEADER_SIZE] + noise
    SIZE.pack_into(data, LENGTH_POSITION, len(data) - LOG_OVERHEAD)
    for count, codec in itertools.product((1, 2, 2**31 - 1), Codec):
        has_plain_records(data, codec, count, 0)
    assert by_skimming(RecordBatch(data)) == by_consumer(RecordBatch(data))
