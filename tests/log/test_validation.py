"""Validation on the leader: rejected batches with their error codes, and converted batches."""

from __future__ import annotations

import pytest
from tests.log.support import NOW_MS, append, batch, read_batches, read_bytes, values

from odradek.log import AppendOrigin, RecordsRefused
from odradek.model.errors import ErrorCode
from odradek.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    CONTROL_FLAG,
    LENGTH_POSITION,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    SIZE,
    TIMESTAMP,
    RecordBatch,
)
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec, compress

HOUR_MS = 3_600_000
COUNT_POSITION = 57
DELTA_POSITION = 23


def refused(log, payload, code, origin=AppendOrigin.CLIENT):
    """Check that the append is refused and the log is unchanged."""
    before = (log.log_end_offset, log.active_segment.size, log.leader_epoch)
    with pytest.raises(RecordsRefused) as caught:
        log.append_as_leader(payload, 0, origin)
    assert caught.value.code is code
    assert (log.log_end_offset, log.active_segment.size, log.leader_epoch) == before
    return caught.value


def changed(payload, position, struct, value):
    """Return a batch with a changed field and a valid checksum."""
    payload = bytearray(payload)
    struct.pack_into(payload, position, value)
    seal(payload)
    return payload


@pytest.fixture
def log(workspace):
    log = workspace.open()
    append(log, b"what is there")
    return log


@pytest.mark.parametrize("bit", [0x01, 0x02, 0x80])
def test_any_damage_under_the_checksum_is_refused(log, bit):
    payload = batch(b"some longer value")
    for position in range(MAGIC_POSITION, len(payload)):
        damaged = bytearray(payload)
        damaged[position] ^= bit
        is_old = position == MAGIC_POSITION and damaged[position] < 2
        refused(log, damaged, ErrorCode.INVALID_RECORD if is_old else ErrorCode.CORRUPT_MESSAGE)
    assert values(log) == [b"what is there"]


@pytest.mark.parametrize("bit", range(32))
def test_a_wrong_length_is_rejected(log, bit):
    damaged = batch(b"value")
    damaged[8 + bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordsRefused) as caught:
        log.append_as_leader(damaged, 0)
    assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert log.log_end_offset == 1


def test_a_payload_that_is_cut_is_refused(log):
    payload = batch(b"value")
    for length in range(len(payload)):
        refused(log, payload[:length], ErrorCode.INVALID_RECORD)


def test_a_payload_of_nothing_but_noise(log):
    refused(log, bytearray(200), ErrorCode.CORRUPT_MESSAGE)
    refused(log, bytearray(b"\xff" * 200), ErrorCode.CORRUPT_MESSAGE)


def test_one_batch_to_a_payload(log):
    assert "more than one" in refused(log, batch() + batch(), ErrorCode.INVALID_RECORD).message
    refused(log, batch() + bytes(100), ErrorCode.CORRUPT_MESSAGE)
    payload = batch()
    log.append_as_leader(payload + payload[:40], 0)  # further errors are omitted, as in Kafka
    assert log.active_segment.size == len(batch(b"what is there")) + len(payload)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused(log, magic):
    payload = batch()
    payload[MAGIC_POSITION] = magic
    assert f"format {magic}" in refused(log, payload, ErrorCode.INVALID_RECORD).message


def test_the_size_limit_of_the_topic(workspace):
    log = workspace.open(max_message_bytes=200)
    size = len(batch(bytes(100)))
    append(log, bytes(100 + 200 - size - 1))
    refused(log, batch(bytes(300)), ErrorCode.MESSAGE_TOO_LARGE)


def test_a_batch_larger_than_a_segment(workspace):
    log = workspace.open(segment_bytes=100)
    append(log, b"fits")
    refused(log, batch(bytes(200)), ErrorCode.RECORD_LIST_TOO_LARGE)
    append(log, b"fits")


def test_a_base_offset_other_than_0(log):
    payload = batch()
    BASE_OFFSET.pack_into(payload, 0, 5)
    refused(log, payload, ErrorCode.INVALID_RECORD)
    log.append_as_leader(payload, 0, AppendOrigin.COORDINATOR)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (COUNT_POSITION, 0),
        (COUNT_POSITION, -1),
        (COUNT_POSITION, 1),
        (COUNT_POSITION, 3),
        (COUNT_POSITION, 2**31 - 1),
        (DELTA_POSITION, -1),
        (DELTA_POSITION, 0),
        (DELTA_POSITION, 2**31 - 1),
    ],
)
def test_counts_and_offsets_that_contradict_each_other(log, position, value):
    refused(log, changed(batch(b"a", b"b"), position, SIZE, value), ErrorCode.INVALID_RECORD)


def test_a_count_that_the_bytes_cannot_hold(log):
    payload = batch(b"a", b"b")
    SIZE.pack_into(payload, COUNT_POSITION, 1_000_000)
    payload = changed(payload, DELTA_POSITION, SIZE, 999_999)
    refused(log, payload, ErrorCode.INVALID_RECORD)


def test_control_records_come_from_coordinators_only(log):
    payload = changed(batch(), ATTRIBUTES_POSITION, ATTRIBUTES, CONTROL_FLAG)
    refused(log, payload, ErrorCode.INVALID_RECORD)


def test_a_producer_id_needs_a_sequence(log):
    refused(log, batch(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(log, codec):
    refused(log, changed(batch(), ATTRIBUTES_POSITION, ATTRIBUTES, codec), ErrorCode.INVALID_RECORD)


def test_records_of_the_far_future_are_refused(log):
    append(log, b"now")
    append(log, b"soon", timestamp=NOW_MS + HOUR_MS)
    error = refused(log, batch(timestamp=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP)
    assert [index for index, _ in error.record_errors] == [0]


def test_the_future_comes_closer(workspace, log):
    late = batch(b"late", timestamp=NOW_MS + 2 * HOUR_MS)
    refused(log, late, ErrorCode.INVALID_TIMESTAMP)
    workspace.clock.ms += HOUR_MS
    append(log, b"late", timestamp=NOW_MS + 2 * HOUR_MS)


def test_records_of_the_past_are_refused_where_the_topic_says_so(workspace):
    log = workspace.open(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=10)
    builder = RecordBatchBuilder()
    for timestamp in (NOW_MS, NOW_MS - 1001, NOW_MS + 10, NOW_MS - 1000, -1, NOW_MS + 11):
        builder.append(timestamp, b"key", b"value")
    error = refused(log, builder.build(), ErrorCode.INVALID_TIMESTAMP)
    assert [index for index, _ in error.record_errors] == [1, 5]
    assert str(NOW_MS - 1001) in error.record_errors[0][1]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_need_keys(workspace, codec, policy):
    log = workspace.open(cleanup_policy=policy)
    payload = batch((b"k", b"v"), b"no key", (b"", b"empty key"), b"none either", codec=codec)
    error = refused(log, payload, ErrorCode.INVALID_RECORD)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert "key" in error.message
    append(log, (b"k", None), codec=codec)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_are_looked_at_have_to_be_there(workspace, codec):
    log = workspace.open(cleanup_policy="compact")
    payload = batch((b"a", b"b"), (b"a", b"b"), codec=codec)
    for count in (1, 3):
        lying = bytearray(payload)
        SIZE.pack_into(lying, COUNT_POSITION, count)
        lying = changed(lying, DELTA_POSITION, SIZE, count - 1)
        refused(log, lying, ErrorCode.INVALID_RECORD)
    noise = payload[:61] + b"this is not compressed at all"
    SIZE.pack_into(noise, LENGTH_POSITION, len(noise) - 12)
    seal(noise)
    refused(log, noise, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_refused(workspace, codec):
    log = workspace.open(compression_type="uncompressed", max_message_bytes=100 << 20)
    builder = RecordBatchBuilder()
    builder.append(NOW_MS, b"key", b"value")
    bomb = builder.build()[:61] + compress(codec, bytes(80 << 20))
    SIZE.pack_into(bomb, LENGTH_POSITION, len(bomb) - 12)
    refused(log, changed(bomb, ATTRIBUTES_POSITION, ATTRIBUTES, codec), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [each for each in Codec if each])
@pytest.mark.parametrize("limit", [1_000, 5 << 20])
def test_a_record_larger_than_allowed_after_decompression_is_refused(workspace, codec, limit):
    """Apache Kafka 4.4 has this limit. Plain records are only limited by the size of the batch."""
    log = workspace.open(max_decompressed_message_bytes=limit)
    head = 16
    append(log, bytes(limit - head), codec=codec)
    append(log, bytes(limit - head), bytes(limit - head), codec=codec)
    error = refused(log, batch(bytes(limit), codec=codec), ErrorCode.INVALID_RECORD)
    assert "max.decompressed.message.bytes" in str(error)
    if limit < 1 << 20:
        append(log, bytes(limit))


def test_recompression_must_not_exceed_the_limit(workspace):
    log = workspace.open(compression_type="uncompressed", max_message_bytes=1000)
    append(log, bytes(900), codec=Codec.GZIP)
    refused(log, batch(bytes(5000), codec=Codec.GZIP), ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_producers_must_not_claim_append_time(workspace, kind):
    log = workspace.open(message_timestamp_type=kind)
    payload = batch(log_append_time=NOW_MS)
    if kind == "LogAppendTime":
        refused(log, payload, ErrorCode.INVALID_TIMESTAMP)
    else:  # Kafka corrects it
        log.append_as_leader(payload, 0)
        stored = RecordBatch(read_bytes(log, 0))
        assert not stored.is_log_append_time
        assert stored.is_valid


@pytest.mark.parametrize("codec", list(Codec))
def test_a_walked_batch_gets_the_max_timestamp_that_its_records_have(workspace, codec):
    log = workspace.open(cleanup_policy="compact")
    payload = batch((b"k", b"v"), timestamp=NOW_MS - 5, codec=codec)
    payload = changed(payload, MAX_TIMESTAMP_POSITION, TIMESTAMP, NOW_MS - 500)
    log.append_as_leader(payload, 0)
    (stored,) = read_batches(log)
    assert stored.max_timestamp == NOW_MS - 5


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("codec", list(Codec))
def test_records_get_offsets_without_gaps_where_they_are_read_anyway(workspace, codec, target):
    """As in Apache Kafka, which does not decode the values of compressed records here."""
    name = "uncompressed" if target is Codec.NONE else target.name.lower()
    log = workspace.open(cleanup_policy="compact", compression_type=name)
    builder = RecordBatchBuilder(codec=codec, producer_id=9, producer_epoch=0, base_sequence=0)
    builder.append(NOW_MS, b"a", b"1", [("h", b"x")], offset=0)
    builder.append(NOW_MS, b"b", b"2", offset=7)
    payload = changed(builder.build(), DELTA_POSITION, SIZE, 1)
    if codec is target is not Codec.NONE:
        refused(log, payload, ErrorCode.INVALID_RECORD)
        return
    log.append_as_leader(payload, 0)
    (stored,) = read_batches(log)
    assert (stored.codec, stored.producer_id, stored.last_offset_delta) == (target, 9, 1)
    assert values(log) == [b"1", b"2"]
