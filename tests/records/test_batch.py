from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.strategies import builders, record_fields

from odradek.records.batch import (
    BASE_OFFSET,
    HEADER_SIZE,
    LEADER_EPOCH,
    LEADER_EPOCH_POSITION,
    LENGTH_POSITION,
    SEQUENCE_MAX,
    SIZE,
    RecordBatch,
    add_to_sequence,
    iterate_batches,
)
from odradek.records.builder import RecordBatchBuilder, plain_batch, record_size
from odradek.records.compression import Codec
from odradek.records.errors import CorruptBatch, InvalidRecords
from odradek.records.record import Record, iterate_fields, iterate_records


def one_record_batch(**fields):
    builder = RecordBatchBuilder(**fields)
    builder.append(1_700_000_000_000, b"key", b"value")
    return builder.build()


def test_bytes_of_a_batch_are_those_of_the_format():
    header = "0000000000000007 00000040 00000003 02 db5e9cdd 0000 00000000"
    times = "0000018bcfe56800 0000018bcfe56800"
    producer_and_count = "ffffffffffffffff ffff ffffffff 00000001"
    record = "1c 00 00 00 06 6b6579 0a 76616c7565 00"
    expected = bytes.fromhex(f"{header} {times} {producer_and_count} {record}")
    assert one_record_batch(base_offset=7, leader_epoch=3) == expected


@given(builders(), st.lists(record_fields, max_size=20))
def test_what_is_built_is_read(builder, fields):
    first = builder.next_offset
    for timestamp, key, value, headers in fields:
        builder.append(timestamp, key, value, headers)
    data = builder.build()
    batch = RecordBatch(data)
    batch.check()
    assert batch.size == len(data)
    assert batch.count == len(fields)
    assert batch.base_offset == first
    assert batch.last_offset == first + len(fields) - 1
    times = [each[0] for each in fields]
    if not batch.is_log_append_time:
        assert batch.max_timestamp == max(times, default=-1)
    assert list(iterate_records(batch)) == [
        Record(
            first + index,
            batch.max_timestamp if batch.is_log_append_time else timestamp,
            key,
            value,
            headers,
            add_to_sequence(batch.base_sequence, index) if batch.base_sequence >= 0 else -1,
        )
        for index, (timestamp, key, value, headers) in enumerate(fields)
    ]


@given(builders(), st.lists(record_fields, max_size=200))
def test_offsets_keys_and_values_alone(builder, fields):
    for timestamp, key, value, headers in fields:
        builder.append(timestamp, key, value, headers)
    batch = RecordBatch(builder.build())
    expected = [(each.offset, each.key, each.value) for each in iterate_records(batch)]
    assert list(iterate_fields(batch)) == expected


@given(st.data())
def test_keys_and_values_of_broken_records(data):
    builder = data.draw(builders(codec=st.just(Codec.NONE)))
    for timestamp, key, value, headers in data.draw(st.lists(record_fields, max_size=5)):
        builder.append(timestamp, key, value, headers)
    broken = builder.build()
    if len(broken) > HEADER_SIZE:
        broken[data.draw(st.integers(HEADER_SIZE, len(broken) - 1))] = data.draw(
            st.integers(0, 255)
        )
    batch = RecordBatch(broken)
    try:
        read = list(iterate_fields(batch))
    except InvalidRecords:
        return
    assert len(read) == batch.count


@given(builders(codec=st.just(Codec.NONE)), st.lists(record_fields, max_size=10))
def test_the_size_of_records_is_known_before_they_are_written(builder, fields):
    expected = HEADER_SIZE
    for index, (timestamp, key, value, headers) in enumerate(fields):
        expected += record_size(timestamp - fields[0][0], index, key, value, headers)
        builder.append(timestamp, key, value, headers)
        assert builder.size == expected
    assert len(builder.build()) == expected


@given(
    st.integers(0, 2**45),
    st.lists(st.tuples(st.binary(max_size=1500), st.binary(max_size=99)), min_size=1, max_size=80),
)
def test_a_plain_batch_is_what_the_builder_builds(timestamp, pairs):
    builder = RecordBatchBuilder()
    for key, value in pairs:
        builder.append(timestamp, key, value)
    assert plain_batch(timestamp, pairs) == builder.build()


def test_offsets_may_have_gaps_and_reach_beyond_the_last_record():
    builder = RecordBatchBuilder(base_offset=100)
    builder.append(5, b"a", None, offset=101)
    builder.append(4, b"b", None, offset=110)
    batch = RecordBatch(builder.build(last_offset=120))
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (100, 120, 121)
    assert [record.offset for record in iterate_records(batch)] == [101, 110]
    assert batch.max_timestamp == 5


def test_a_leader_changes_offset_and_epoch_without_a_new_checksum():
    data = one_record_batch()
    BASE_OFFSET.pack_into(data, 0, 4711)
    LEADER_EPOCH.pack_into(data, LEADER_EPOCH_POSITION, 9)
    batch = RecordBatch(data)
    assert (batch.base_offset, batch.leader_epoch, batch.is_valid) == (4711, 9, True)


@pytest.mark.parametrize("position", range(16, 76))
def test_every_other_byte_is_guarded(position):
    data = one_record_batch()
    data[position] ^= 0x10
    if position == 16:
        with pytest.raises(CorruptBatch, match="format 18"):
            list(iterate_batches(data))
    else:
        with pytest.raises(CorruptBatch, match="checksum"):
            RecordBatch(data).check()


def test_batches_follow_one_another_and_a_cut_one_ends_them():
    data = one_record_batch() + one_record_batch(base_offset=1) + one_record_batch(base_offset=2)
    assert [batch.base_offset for batch in iterate_batches(data)] == [0, 1, 2]
    assert [batch.base_offset for batch in iterate_batches(data[:-1])] == [0, 1]
    assert list(iterate_batches(data[:11])) == []
    assert list(iterate_batches(b"")) == []


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48])
def test_a_length_that_no_batch_can_have_is_corrupt(length):
    data = one_record_batch()
    SIZE.pack_into(data, LENGTH_POSITION, length)
    with pytest.raises(CorruptBatch):
        list(iterate_batches(data))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_count_is_found_by_reading(count):
    builder = RecordBatchBuilder()
    builder.append(0, b"a", b"b")
    builder.append(0, b"a", b"b")
    batch = RecordBatch(builder.build())
    batch.count = count
    if count == 0:
        assert list(iterate_records(batch)) == []  # as Apache Kafka reads it
    else:
        with pytest.raises(InvalidRecords):
            list(iterate_records(batch))


@given(st.binary(max_size=300))
def test_noise_is_refused_or_read_but_nothing_else_happens(noise):
    batch = RecordBatch(one_record_batch() + noise)
    data = bytearray(batch.data[:HEADER_SIZE]) + noise
    SIZE.pack_into(data, LENGTH_POSITION, len(data) - 12)
    batch = RecordBatch(data)
    batch.count = 3
    try:
        records = list(iterate_records(batch))
    except InvalidRecords:
        return
    assert len(records) == 3


def test_sequences_wrap():
    assert add_to_sequence(SEQUENCE_MAX, 1) == 0
    assert add_to_sequence(SEQUENCE_MAX - 1, 3) == 1
    assert add_to_sequence(5, 0) == 5
