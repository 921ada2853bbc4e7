"""Power is lost at every change that cleaning makes to the disk."""

from __future__ import annotations

import random

from tests.log.cleaner.support import COMPACTED, clean, clean_wholly
from tests.log.lossy_file_system import LossyFileSystem, PowerLoss
from tests.log.support import LogRoom, batch, end_transaction, read_batches, read_records

from odradek.log import PartitionLog
from odradek.records.control import control_type
from odradek.records.record import Record, iterate_records

DRAWS = 3


def _room(files: LossyFileSystem) -> LogRoom:
    room = LogRoom("/data", files)
    room.storage.verify_transactions = False
    return room


def _filled(files: LossyFileSystem) -> tuple[LogRoom, PartitionLog]:
    """Six segments of which two are clean, with transactions and tombstones, all flushed."""
    room = _room(files)
    log = room.open(**COMPACTED)
    draw = random.Random(5)
    sequence = 0
    for segment in range(6):
        for number in range(4):
            records = [
                (b"key-%d" % draw.randrange(12), draw.choice([None, b"v" * draw.randrange(60)]))
                for _ in range(3)
            ]
            fields = {}
            if number == 1:
                fields = {"producer_id": 4, "producer_epoch": 0, "base_sequence": sequence}
                fields["is_transactional"] = True
                sequence += 3
            log.append_as_leader(batch(*records, **fields), 0)
        end_transaction(log, segment % 2 == 0, 4)
        log.roll()
        if segment == 1:
            clean(log, room)
    log.flush()
    log.storage.file_system.sync_directory(log.path)
    log.storage.file_system.sync_directory("/data")
    return room, log


def _data(log: PartitionLog) -> dict[int, Record]:
    return {
        record.offset: record
        for each in read_batches(log)
        if not each.is_control
        for record in iterate_records(each)
    }


def _markers(log: PartitionLog) -> dict[int, int]:
    return {
        each.base_offset: control_type(record)
        for each in read_batches(log)
        if each.is_control
        for record in iterate_records(each)
    }


def test_power_loss_at_every_change():
    room, log = _filled(LossyFileSystem())
    before, end = _data(log), log.log_end_offset
    aborted_before = log.aborted_transactions(0, end)
    clean_wholly(log, room)
    after = _data(log)
    assert len(after) < len(before)

    cut = 0
    while True:
        files = LossyFileSystem()
        files.draw = random.Random(cut)
        room, log = _filled(files)
        cleaned_to = log.first_dirty_offset
        files.stop_after = cut
        try:
            clean(log, room)
        except PowerLoss:
            pass
        else:
            break
        for number in range(DRAWS):
            survivor = files.crash(random.Random(1000 * cut + number))
            _check(survivor, cut, cleaned_to, before, after, end, aborted_before)
        cut += 1
    assert cut > 30


def _check(files, cut, cleaned_to, before, after, end, aborted_before) -> None:
    room = _room(files)
    log = room.reopen(
        arguments={"recovery_point": end if cut % 2 else 0, "was_clean": False}, **COMPACTED
    )
    assert log.log_end_offset == end
    found = _data(log)
    assert after.items() <= found.items() <= before.items()
    for offset in range(end):
        if found and offset <= max(found):
            assert read_records(log, offset), "every offset can be read from"
    assert set(log.aborted_transactions(0, end)) <= set(aborted_before)
    markers = _markers(log)
    for transaction in aborted_before:
        has_data = any(
            transaction.first_offset <= offset <= transaction.last_offset
            and before[offset] == record
            for offset, record in found.items()
            if offset not in after
        )
        if has_data and transaction.last_offset in markers:
            assert transaction in log.aborted_transactions(0, end)
    log.first_dirty_offset = cleaned_to
    clean_wholly(log, room)
    assert _data(log) == after
    assert not [name for name in room.files() if name.endswith((".cleaned", ".swap"))]
