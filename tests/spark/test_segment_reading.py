"""Segment files give the rows that the broker gives, and races over them are detected."""

from __future__ import annotations

import os
import shutil
import struct
from itertools import pairwise

import pytest
from tests.log.support import (
    PARTITION,
    LogWorkspace,
    append,
    batch,
    end_transaction,
    read_bytes,
)
from tests.spark.log_histories import BrokerReader, FilesReader, History, read_options_for, rows
from tests.support.run_seed import seeds

from odradek.arrow import columns
from odradek.log import PartitionLog
from odradek.records.batch import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD, SIZE
from odradek.records.builder import seal
from odradek.spark import replicas, segment_reading, segments
from odradek.spark.planning import Split

EVERYTHING = Split(PARTITION, 0, 1 << 60)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(segment_reading, "FIRST_PIECE_BYTES", 300)
    monkeypatch.setattr(segment_reading, "PIECE_BYTES", 1000)
    monkeypatch.setattr(segment_reading, "VALID_MS", 600_000)  # also on a busy machine


def through_broker(log, split, read_committed):
    return rows(BrokerReader(log, read_options_for(read_committed), split))


def readable(log, read_committed) -> Split:
    end = log.last_stable_offset if read_committed else log.high_watermark
    return Split(PARTITION, log.log_start_offset, end)


@pytest.mark.parametrize("seed", seeds(3))
def test_files_have_the_rows_that_the_broker_returns(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(segment_reading, "FIRST_PIECE_BYTES", 1 + seed % 500)
    monkeypatch.setattr(segment_reading, "PIECE_BYTES", 100 + seed % 3000)
    history = History(tmp_path / "log", seed)
    for _ in range(history.draw.randrange(5, 90)):
        history.step()
    log = history.log
    for read_committed in (False, True):
        end = readable(log, read_committed).end
        for split in history.splits(2):
            split = Split(PARTITION, split.start, min(split.end, end))
            reader = FilesReader(log, read_options_for(read_committed), split)
            assert rows(reader) == through_broker(log, split, read_committed), f"seed {seed}"
            assert reader.next_offset >= split.end, f"seed {seed}: {split}"


class Reading:
    """A read that goes on in steps while the log changes."""

    def __init__(self, log, split: Split, read_committed: bool) -> None:
        self.start = split.start
        self.found: list[dict] = []
        self._reader = FilesReader(log, read_options_for(read_committed), split)
        self._batches = iter(self._reader)

    def step(self) -> bool:
        """Read an Arrow batch, if files have one."""
        found = next(self._batches, None)
        if found is not None:
            self.found += rows(iter([found]))
        return found is not None

    def check(self, before: list[dict], after: list[dict], log_start: int) -> None:
        """Check that all found records were in the log, and that none that stayed is missing."""
        offsets = [row["offset"] for row in self.found]
        assert all(first < second for first, second in pairwise(offsets))
        known = {row["offset"]: row for row in before}
        assert self.found == [known[offset] for offset in offsets]
        passed = range(max(self.start, log_start), self._reader.next_offset)
        assert {row["offset"] for row in after if row["offset"] in passed} <= set(offsets)


@pytest.mark.parametrize("seed", seeds(2))
def test_reads_while_files_are_compacted_and_deleted(tmp_path, seed):
    """A read begins at every change of a file, and others go on."""
    history = History(tmp_path / "log", seed)
    for _ in range(history.draw.randrange(30, 90)):
        history.step()
    log, read_committed = history.log, seed % 2 == 0
    split = readable(log, read_committed)
    before = through_broker(log, split, read_committed)
    begun = [Reading(log, split, read_committed) for _ in range(2)]
    whole: list[Reading] = []

    def on_change() -> None:
        for each in begun:
            if history.draw.random() < 0.5:
                each.step()
        if len(whole) < 60:
            whole.append(Reading(log, split, read_committed))
            while whole[-1].step():
                pass

    begun[0].step()
    history.files.on_change = on_change
    for _ in range(3):
        history.compact()
        history.delete(split.end // 2)
        history.append()
        begun.append(Reading(log, split, read_committed))
    after = through_broker(log, split, read_committed)
    for each in (*begun, *whole):
        each.check(before, after, log.log_start_offset)


def filled(directory, **settings):
    """A log with transactions: five that were aborted and five that were committed."""
    workspace = LogWorkspace(directory)
    workspace.storage = workspace.new_storage(verify_transactions=False)
    log = workspace.open(**settings)
    for number in range(10):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        append(log, b"%d" % number, is_transactional=True, **fields)
        end_transaction(log, committed=number % 2 == 0, producer_id=7)
    return log


def read_until_the_end(reader: FilesReader) -> tuple[list[dict], int]:
    return rows(reader), reader.next_offset


def test_what_follows_the_last_offset_is_not_looked_at(tmp_path):
    log = filled(tmp_path / "log")
    expected = through_broker(log, readable(log, True), True)
    half = bytes(batch(b"half", base_offset=log.log_end_offset))[:-3]
    with open(log.segments.active.path(".log"), "ab") as file:
        file.write(half)
    split = Split(PARTITION, 0, log.log_end_offset)
    reader = FilesReader(log, read_options_for(True), split)
    assert read_until_the_end(reader) == (expected, log.log_end_offset)
    beyond = FilesReader(log, read_options_for(False), EVERYTHING, end=log.log_end_offset + 1)
    assert read_until_the_end(beyond)[1] == log.log_end_offset


def test_a_damaged_batch_and_those_after_it_are_left_to_the_broker(tmp_path):
    log = filled(tmp_path / "log")
    expected = through_broker(log, Split(PARTITION, 0, 10), False)
    path = log.segments.active.path(".log")
    position = log.segments.active.position_of(10)
    with open(path, "r+b") as file:
        file.seek(position + 62)
        file.write(b"\xff\xff")
    found, end = read_until_the_end(FilesReader(log, read_options_for(False), EVERYTHING))
    assert found == expected[: len(found)]
    assert found
    assert end <= 10


def test_of_a_piece_with_damaged_records_only_what_was_read_is_passed_over(tmp_path, monkeypatch):
    """The checksum of the batch is right, so the damage is found when its records are converted."""
    monkeypatch.setattr(columns, "PART_BYTES", 1)
    monkeypatch.setattr(segment_reading, "FIRST_PIECE_BYTES", 1 << 20)
    log = filled(tmp_path / "log")
    expected = through_broker(log, Split(PARTITION, 0, 4), False)
    position = log.segments.active.position_of(4)
    with open(log.segments.active.path(".log"), "r+b") as file:
        file.seek(position)
        damaged = bytearray(file.read(80))
        damaged = damaged[: LOG_OVERHEAD + SIZE.unpack_from(damaged, LENGTH_POSITION)[0]]
        damaged[HEADER_SIZE] ^= 0xFF
        seal(damaged)
        file.seek(position)
        file.write(damaged)
    found, end = read_until_the_end(FilesReader(log, read_options_for(False), EVERYTHING))
    assert found == expected
    assert 3 <= end <= 4


def test_records_before_the_log_start_offset_are_left_to_the_broker(tmp_path):
    log = filled(tmp_path / "log")
    log.delete_records_before(6)
    split = Split(PARTITION, 0, log.log_end_offset)
    assert read_until_the_end(FilesReader(log, read_options_for(False), split)) == ([], 0)
    assert len(list(log.segments)) == 1


def test_a_wrong_offset_index_skips_no_records(tmp_path):
    log = filled(tmp_path / "log")
    expected = through_broker(log, Split(PARTITION, 5, log.log_end_offset), False)
    last = log.segments.active.position_of(18)
    for position in (last, last + 1, log.size + 100, -3):
        with open(log.segments.active.path(".index"), "wb") as file:
            file.write(struct.pack(">iiii", 0, position, 6, last))
        reader = FilesReader(log, read_options_for(False), Split(PARTITION, 5, log.log_end_offset))
        assert read_until_the_end(reader) == (expected, log.log_end_offset)


def test_a_batch_that_ends_above_the_safe_end_is_left_to_the_broker(tmp_path):
    """A high watermark is never inside a batch of the leader."""
    log = LogWorkspace(tmp_path / "log").open()
    append(log, *(b"%d" % number for number in range(10)))
    for end, found in ((5, 0), (10, 10)):
        reader = FilesReader(log, read_options_for(False), EVERYTHING, end=end)
        assert read_until_the_end(reader)[1] == found


def test_a_segment_that_a_list_lacks_is_no_gap(tmp_path, monkeypatch):
    """A list of names is not made at one moment, so a renamed file may be in none of its states."""
    log = filled(tmp_path / "log", segment_bytes=300)
    expected = through_broker(log, readable(log, False), False)
    complete = segments.list_segments
    lists = 0

    def list_segments(directory):
        nonlocal lists
        lists += 1
        found = complete(directory)
        return found._replace(bases=(found.bases[0], *found.bases[2:])) if lists == 1 else found

    monkeypatch.setattr(segments, "list_segments", list_segments)
    reader = FilesReader(log, read_options_for(False), Split(PARTITION, 0, log.log_end_offset))
    assert read_until_the_end(reader) == (expected, log.log_end_offset)


def test_a_removed_file_is_not_read_on(tmp_path):
    """Its descriptor would still have the records, which the broker no longer returns."""
    log = filled(tmp_path / "log")
    reader = FilesReader(log, read_options_for(False), Split(PARTITION, 0, log.log_end_offset))
    batches = iter(reader)
    assert next(batches).num_rows > 0
    read_to = reader.next_offset
    assert read_to < log.log_end_offset
    log.roll()
    log.delete_records_before(log.log_end_offset)
    log.delete_old_segments()
    assert list(batches) == []
    assert read_to <= reader.next_offset < log.log_end_offset


def test_a_directory_that_was_replaced_is_not_read_on(tmp_path):
    """The topic was deleted and created again: the new directory has other records."""
    log = filled(tmp_path / "log")
    split = Split(PARTITION, 0, log.log_end_offset)
    inode = os.stat(log.path).st_ino
    shutil.copytree(log.path, tmp_path / "copy")
    reader = FilesReader(log, read_options_for(False), split, path=str(tmp_path / "copy"))
    assert read_until_the_end(reader)[1] == log.log_end_offset
    reader = FilesReader(
        log, read_options_for(False), split, path=str(tmp_path / "copy"), inode=inode
    )
    assert read_until_the_end(reader) == ([], 0)


def test_answers_of_the_broker_are_used_for_a_short_time(tmp_path, monkeypatch):
    """With no time at all, a piece is read after each answer, but nothing of a transaction."""
    monkeypatch.setattr(segment_reading, "VALID_MS", 0)
    log = filled(tmp_path / "log")
    split = Split(PARTITION, 0, log.log_end_offset)
    reader = FilesReader(log, read_options_for(False), split)
    assert rows(reader) == through_broker(log, split, False)
    assert reader.count_found > 1
    assert read_until_the_end(FilesReader(log, read_options_for(True), split)) == ([], 0)


def test_a_former_copy_of_the_files_may_lack_aborted_transactions(tmp_path):
    log = filled(tmp_path / "log")
    producer = {"producer_id": 8, "producer_epoch": 0, "is_transactional": True}
    append(log, b"aborted", base_sequence=0, **producer)
    copy = shutil.copytree(log.path, tmp_path / "copy")
    end_transaction(log, committed=False, producer_id=8)
    split = Split(PARTITION, 0, log.log_end_offset)
    reader = FilesReader(log, read_options_for(True), split, path=str(copy))
    assert read_until_the_end(reader) == ([], 0)
    # Without transactions or with all records, a copy is only shorter.
    reader = FilesReader(log, read_options_for(False), split, path=str(copy))
    assert rows(reader) == through_broker(log, split, False)


def follower(directory, leader) -> PartitionLog:
    """A follower that has the leader's log."""
    log = LogWorkspace(directory).open()
    log.append_as_follower(read_bytes(leader, 0), 0)
    log.high_watermark = log.log_end_offset
    return log


def test_of_a_follower_only_what_the_leader_has_is_read(tmp_path, monkeypatch):
    leader = LogWorkspace(tmp_path / "leader").open()
    for number in range(10):
        append(leader, b"common%d" % number)
    log = follower(tmp_path / "follower", leader)
    log.append_as_follower(bytes(batch(b"lost", base_offset=10, leader_epoch=1)), 1)
    leader.on_leader_epoch(2)
    append(leader, b"kept", epoch=2)
    asked = []

    def end_of_epoch(cluster, topic_partition, at, epoch):
        asked.append(epoch)
        return leader.end_offset_for_epoch(epoch)

    monkeypatch.setattr(replicas, "end_of_epoch", end_of_epoch)
    monkeypatch.setattr(segment_reading, "FIRST_PIECE_BYTES", 200)
    monkeypatch.setattr(segment_reading, "PIECE_BYTES", 200)
    options = read_options_for(False)
    fields = {"is_leader": False, "end": 11, "high_watermark": 11, "stored_high_watermark": 11}
    split = Split(PARTITION, 0, 11)
    reader = FilesReader(log, options, split, **fields)
    found, end = read_until_the_end(reader)
    assert found == through_broker(leader, Split(PARTITION, 0, end), False)
    assert 5 <= end <= 10
    assert asked[-1] == 1


def test_of_a_follower_transactions_are_read_when_it_has_their_markers(tmp_path, monkeypatch):
    leader = filled(tmp_path / "leader")
    log = follower(tmp_path / "follower", leader)
    monkeypatch.setattr(replicas, "end_of_epoch", lambda *_: leader.end_offset_for_epoch(0))
    split, options = Split(PARTITION, 0, 20), read_options_for(True)
    for stored, end in ((19, 0), (20, 20)):
        fields = {"is_leader": False, "end": stored, "stored_high_watermark": stored}
        reader = FilesReader(log, options, split, **fields)
        expected = through_broker(leader, Split(PARTITION, 0, end), True)
        assert read_until_the_end(reader) == (expected, end)
