from __future__ import annotations

import pytest
from tests.log.support import (
    NOW_MS,
    PARTITION,
    append,
    batch,
    end_transaction,
    read_batches,
    read_bytes,
    read_records,
    topic_config,
    values,
)

from odradek.log import OffsetOutOfRange
from odradek.records.batch import RecordBatch
from odradek.records.compression import Codec
from odradek.records.record import iterate_records


def test_offsets_follow_one_another(workspace):
    log = workspace.open()
    infos = [append(log, b"a"), append(log, b"b", b"c"), append(log, b"d")]
    assert [(info.base_offset, info.last_offset) for info in infos] == [(0, 0), (1, 2), (3, 3)]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 4, 4)
    assert values(log) == [b"a", b"b", b"c", b"d"]


def test_the_stored_batch_is_the_sent_one_but_for_offset_and_leader_epoch(workspace):
    log = workspace.open()
    append(log, b"first")
    sent = batch(b"second", b"third", codec=Codec.ZSTD)
    untouched = bytes(sent)
    log.append_as_leader(sent, 7)
    stored = read_bytes(log, 1)
    assert stored == bytes(sent)
    assert (stored[:8], stored[12:16]) == (b"\0\0\0\0\0\0\0\1", b"\0\0\0\7")
    assert stored[8:12] + stored[16:] == untouched[8:12] + untouched[16:]


def test_a_buffer_that_cannot_be_written_to_is_copied(workspace):
    log = workspace.open()
    for _ in range(3):
        log.append_as_leader(bytes(batch(b"x")), 0)
        log.append_as_leader(memoryview(bytes(batch(b"x"))), 0)
    assert [each.base_offset for each in read_batches(log)] == [0, 1, 2, 3, 4, 5]


def test_a_payload_in_the_middle_of_a_larger_buffer(workspace):
    log = workspace.open()
    frame = bytearray(b"header") + batch(b"x") + b"trailer"
    view = memoryview(frame)[6:-7]
    for _ in range(2):
        view[:8] = bytes(8)
        log.append_as_leader(view, 0)
    assert values(log) == [b"x", b"x"]
    assert frame.startswith(b"header")
    assert frame.endswith(b"trailer")


def test_reads_begin_at_the_batch_that_holds_the_offset(workspace):
    log = workspace.open()
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e")
    for offset, base in ((0, 0), (1, 0), (2, 0), (3, 3), (4, 3)):
        assert read_batches(log, offset)[0].base_offset == base
    assert log.read(5, 100, 5) is None


def test_reads_end_below_the_limit(workspace):
    log = workspace.open()
    for _ in range(4):
        append(log, b"a", b"b")
    for limit, count in ((0, 0), (2, 1), (4, 2), (8, 4)):
        data = read_bytes(log, 0, limit=limit)
        assert len(data) == count * len(batch(b"a", b"b"))
    assert log.read(6, 100, 4) is None


def test_the_first_batch_is_whole_if_that_is_asked_for(workspace):
    log = workspace.open()
    append(log, bytes(1000))
    append(log, bytes(1000))
    size = len(batch(bytes(1000)))
    assert len(read_bytes(log, 0, 10)) == size
    assert log.read(0, 10, 2, whole_first=False) is None
    assert len(read_bytes(log, 0, size, whole_first=False)) == size
    assert (
        len(read_bytes(log, 0, size + 10, whole_first=False)) == size + 10
    )  # truncated, as in Kafka
    assert len(read_bytes(log, 0, 0)) == size


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_offsets_that_are_not_there(workspace, offset):
    log = workspace.open()
    append(log, b"a", b"b", b"c")
    with pytest.raises(OffsetOutOfRange, match="0 to 3"):
        log.read(offset, 100, 3)


def test_reads_go_on_over_segments(workspace):
    log = workspace.open(segment_bytes=500)
    for number in range(50):
        append(log, b"%d" % number, b"filler" * 5)
    assert len(log.segments) > 5
    expected = [
        b"%d" % (number // 2) if number % 2 == 0 else b"filler" * 5 for number in range(100)
    ]
    assert values(log) == expected
    for offset in range(100):
        assert read_records(log, offset)[0].offset == offset


def test_every_offset_is_found_with_sparse_and_with_dense_indexes(workspace):
    for interval in (0, 300, 4096):
        log = workspace.open(PARTITION._replace(partition=interval), index_interval_bytes=interval)
        for number in range(100):
            append(log, *[b"%d" % number] * (1 + number % 4))
        log.active_segment.forget_positions()
        for offset in range(log.log_end_offset):
            found = RecordBatch(read_bytes(log, offset, 1))
            assert found.base_offset <= offset <= found.last_offset


def test_what_is_read_stays_readable_when_the_log_goes(workspace):
    log = workspace.open(segment_bytes=300)
    for _ in range(20):
        append(log, b"some value")
    data = log.read(0, 1000, log.log_end_offset)
    expected = read_bytes(log, 0, 1000)
    log.delete_records_before(15)
    log.delete_old_segments()
    log.close()
    found = data.records
    assert workspace.file_system.pread(found.descriptor, found.length, found.position) == expected


def test_few_files_are_open_and_all_are_served(workspace):
    workspace.storage = workspace.new_storage(open_files_max=3)
    logs = [workspace.open(PARTITION._replace(partition=number)) for number in range(10)]
    for round_number in range(5):
        for number, log in enumerate(logs):
            append(log, b"%d %d" % (number, round_number))
            assert len(workspace.storage.descriptors) <= 3
    for number, log in enumerate(logs):
        assert values(log) == [b"%d %d" % (number, each) for each in range(5)]


def test_append_time(workspace):
    log = workspace.open(message_timestamp_type="LogAppendTime")
    workspace.clock.ms = NOW_MS + 12345
    for codec in Codec:
        sent = batch(b"a", b"b", timestamp=5, codec=codec)
        info = log.append_as_leader(sent, 0)
        assert info.log_append_time_ms == NOW_MS + 12345
    for stored in read_batches(log):
        assert stored.is_log_append_time
        assert stored.max_timestamp == NOW_MS + 12345
        assert {record.timestamp for record in iterate_records(stored)} == {NOW_MS + 12345}


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompression(workspace, target):
    log = workspace.open(
        compression_type=target, compression_zstd_level=9, compression_gzip_level=3
    )
    for codec in Codec:
        append(
            log,
            b"a" * 500,
            b"b" * 500,
            codec=codec,
            producer_id=3,
            producer_epoch=0,
            base_sequence=2 * codec,
        )
    wanted = Codec.NONE if target == "uncompressed" else Codec[target.upper()]
    assert {stored.codec for stored in read_batches(log)} == {wanted}
    assert values(log) == [b"a" * 500, b"b" * 500] * 5
    assert [each.sequence for each in read_records(log)] == list(range(10))


def test_control_batches_are_not_compressed(workspace):
    log = workspace.open(compression_type="zstd")
    end_transaction(log, True, 5)
    assert RecordBatch(read_bytes(log, 0)).codec == Codec.NONE


def test_settings_change_while_the_log_is_used(workspace):
    log = workspace.open()
    append(log, b"a")
    log.update_config(topic_config(compression_type="gzip"))
    append(log, b"a")
    log.update_config(topic_config(segment_bytes=100))
    append(log, b"a")
    assert [stored.codec for stored in read_batches(log)] == [0, 1, 0]
    assert len(log.segments) == 2
