"""Offsets by timestamp, and end offsets of leader epochs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.support import NOW_MS, LogWorkspace, append, read_records

from odradek.log.leader_epochs import LeaderEpochs
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec

LATEST, EARLIEST, MAX, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6


def append_times(log, *times, codec=Codec.NONE):
    builder = RecordBatchBuilder(codec=codec)
    for time in times:
        builder.append(NOW_MS - 100_000 + time, None, b"value")
    log.append_as_leader(builder.build(), 3)
    log.high_watermark = log.log_end_offset


def ask(log, time):
    found = log.offset_for_timestamp(NOW_MS - 100_000 + time)
    return None if found is None else (found.timestamp - NOW_MS + 100_000, found.offset)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_first_record_at_or_after_a_time(workspace, codec):
    log = workspace.open()
    append_times(log, 10, 20, 30, codec=codec)
    append_times(log, 5, 60, 40, codec=codec)
    append_times(log, 50, 70, codec=codec)
    for time, expected in (
        (0, (10, 0)),
        (10, (10, 0)),
        (11, (20, 1)),
        (31, (60, 4)),
        (60, (60, 4)),
        (61, (70, 7)),
        (71, None),
    ):
        assert ask(log, time) == expected


def test_records_before_the_log_start_do_not_count(workspace):
    log = workspace.open()
    append_times(log, 10, 20, 30)
    append_times(log, 40)
    log.delete_records_before(2)
    assert ask(log, 0) == (30, 2)
    log.delete_records_before(3)
    assert ask(log, 0) == (40, 3)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=40),
    st.booleans(),
)
def test_by_time_is_as_by_looking_at_all(tmp_path_factory, batches, restart):
    log = LogWorkspace(tmp_path_factory.mktemp("log")).open(
        segment_bytes=600, index_interval_bytes=50
    )
    workspace = LogWorkspace(log.directory.path)
    for times in batches:
        append_times(log, *times)
    if restart:
        log.close()
        log = workspace.reopen(
            arguments={"was_clean": True}, segment_bytes=600, index_interval_bytes=50
        )
    records = read_records(log)
    for time in range(52):
        target = NOW_MS - 100_000 + time
        by_looking = [record for record in records if record.timestamp >= target]
        found = log.offset_for_timestamp(target)
        assert (found is None) == (not by_looking)
        if found is not None:
            assert (found.timestamp, found.offset) == (
                by_looking[0].timestamp,
                by_looking[0].offset,
            )
    latest = max(record.timestamp for record in records)
    found = log.offset_for_timestamp(MAX)
    assert found.timestamp == latest
    assert found.offset == next(r.offset for r in records if r.timestamp == latest)


def test_special_times(workspace):
    log = workspace.open()
    log.on_leader_epoch(2)
    assert log.offset_for_timestamp(LATEST) == (-1, 0, 2)
    assert log.offset_for_timestamp(EARLIEST) == (-1, 0, 2)
    assert log.offset_for_timestamp(MAX) is None
    append(log, b"a", b"b", epoch=2)
    append(log, b"c", epoch=5)
    assert log.offset_for_timestamp(LATEST) == (-1, 3, 5)
    assert log.offset_for_timestamp(EARLIEST) == (-1, 0, 2)
    assert log.offset_for_timestamp(MAX) == (NOW_MS, 0, 2)
    log.delete_records_before(2)
    assert log.offset_for_timestamp(EARLIEST) == (-1, 2, 5)
    assert log.offset_for_timestamp(EARLIEST_LOCAL) == (-1, 2, 5)
    assert log.offset_for_timestamp(LATEST_TIERED) == (-1, -1, -1)
    assert log.offset_for_timestamp(PENDING) == (-1, -1, -1)


# -- leader epochs ----------------------------------------------------------------------------


def epochs_of(*entries):
    return LeaderEpochs(list(entries))


def test_where_an_epoch_ends():
    epochs = epochs_of((2, 10), (4, 20), (7, 30))
    for asked, expected in (
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 99)),
        (8, (-1, -1)),
    ):
        assert epochs.end_offset_for(asked, 99) == expected
    assert epochs_of().end_offset_for(0, 5) == (-1, -1)


def test_which_epoch_an_offset_is_of():
    epochs = epochs_of((2, 10), (4, 20))
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 4]


def test_an_epoch_begins_once():
    epochs = epochs_of((2, 10))
    epochs.assign(2, 15)
    assert epochs.entries == [(2, 10)]
    assert epochs.to_write(99) is None
    epochs.assign(2, 5)
    assert epochs.entries == [(2, 5)]
    assert epochs.to_write(99) == ((2, 5),)


def test_an_epoch_is_written_when_it_has_a_record():
    epochs = epochs_of((2, 10))
    epochs.assign(3, 20)
    assert epochs.to_write(20) is None
    assert epochs.to_write(21) == ((2, 10), (3, 20))
    epochs.on_written(((2, 10), (3, 20)))
    assert epochs.to_write(22) is None
    epochs.truncate_from_end(20)
    assert epochs.to_write(20) == ((2, 10),)


def test_entries_that_contradict_a_new_one_go():
    epochs = epochs_of((2, 10), (4, 20), (7, 30))
    epochs.assign(5, 25)
    assert epochs.entries == [(2, 10), (4, 20), (5, 25)]
    epochs.assign(6, 15)
    assert epochs.entries == [(2, 10), (6, 15)]


def test_truncation_of_epochs():
    epochs = epochs_of((2, 10), (4, 20), (7, 30))
    epochs.truncate_from_end(31)
    assert epochs.to_write(99) is None
    epochs.truncate_from_end(30)
    assert epochs.entries == [(2, 10), (4, 20)]
    epochs.truncate_from_start(10)
    assert epochs.entries == [(2, 10), (4, 20)]
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), (4, 20)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [(4, 25)]
    epochs.truncate_from_start(3)
    assert epochs.entries == [(4, 25)]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_both_columns_grow(entries):
    epochs = LeaderEpochs()
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
        assert epochs.epochs == sorted(set(epochs.epochs))
        assert epochs.start_offsets == sorted(set(epochs.start_offsets))
        assert epochs.latest == epoch


def test_epochs_of_a_log_live_through_restarts(workspace):
    log = workspace.open()
    append(log, b"a", epoch=1)
    append(log, b"b", epoch=3)
    log.on_leader_epoch(4)
    assert log.leader_epochs.entries == [(1, 0), (3, 1), (4, 2)]
    lost = workspace.open()  # after a crash the epochs in batches are found again
    assert lost.leader_epochs.entries == [(1, 0), (3, 1)]
    log.close()
    kept = workspace.reopen(arguments={"was_clean": True})
    assert kept.leader_epochs.entries == [(1, 0), (3, 1)]  # as in Kafka, the empty epoch is removed
    assert kept.end_offset_for_epoch(1) == (1, 1)
    assert kept.leader_epoch == 3
