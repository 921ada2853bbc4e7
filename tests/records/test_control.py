from __future__ import annotations

import pytest
from tests.records.legacy import legacy_message

from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import (
    END_TRANSACTION_VALUE,
    ControlType,
    EndOfTransaction,
    control_batch,
    control_key,
    control_type,
    end_of_transaction_batch,
    read_end_of_transaction,
)
from odradek.records.errors import CorruptBatch, InvalidRecords
from odradek.records.legacy import LegacyMessage, is_legacy
from odradek.records.record import Record, iterate_records


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction(committed):
    data = end_of_transaction_batch(
        committed, producer_id=4000, producer_epoch=2, coordinator_epoch=17, timestamp=99
    )
    batch = RecordBatch(data)
    batch.check()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4000, 2, -1)
    assert read_end_of_transaction(batch) == EndOfTransaction(committed, 17)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("timestamp", [-1, 0, 2**42])
def test_the_end_of_a_transaction_is_what_the_builder_makes(committed, timestamp):
    builder = RecordBatchBuilder(
        leader_epoch=3, producer_id=2**40, producer_epoch=32767, is_transactional=True,
        is_control=True,
    )  # fmt: skip
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    builder.append(timestamp, control_key(kind), END_TRANSACTION_VALUE.pack(0, 2**31 - 1))
    assert builder.build() == end_of_transaction_batch(
        committed,
        producer_id=2**40,
        producer_epoch=32767,
        coordinator_epoch=2**31 - 1,
        timestamp=timestamp,
        leader_epoch=3,
    )


def test_an_end_that_compaction_has_emptied():
    batch = RecordBatch(RecordBatchBuilder(is_control=True, is_transactional=True).build(0))
    assert read_end_of_transaction(batch) is None


def test_other_control_records():
    batch = RecordBatch(
        control_batch(ControlType.LEADER_CHANGE, b"body", timestamp=3, base_offset=5)
    )
    record = next(iterate_records(batch))
    assert (record.offset, record.timestamp, record.value) == (5, 3, b"body")
    assert control_type(record) is ControlType.LEADER_CHANGE
    with pytest.raises(InvalidRecords, match="LEADER_CHANGE"):
        read_end_of_transaction(batch)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_control_record_needs_a_type(key):
    with pytest.raises(InvalidRecords):
        control_type(Record(0, 0, key, None))


def test_an_unknown_type_is_known_to_be_unknown():
    assert control_type(Record(0, 0, b"\x00\x00\x00\x63", None)) is ControlType.UNKNOWN
    assert control_key(ControlType.ABORT) == b"\x00\x00\x00\x00"


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages(magic):
    data = legacy_message(magic)
    assert is_legacy(data)
    message = LegacyMessage(data + b"more")
    assert message.is_valid
    assert (message.last_offset, message.next_offset, message.size) == (42, 43, len(data))
    assert message.max_timestamp == (7 if magic else -1)
    data[-1] ^= 1
    assert not LegacyMessage(data).is_valid


@pytest.mark.parametrize("cut", [0, 16, 25])
def test_an_old_message_that_is_cut(cut):
    with pytest.raises(CorruptBatch):
        LegacyMessage(legacy_message(1)[:cut])


def test_a_new_batch_is_no_old_message():
    batch = end_of_transaction_batch(
        True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    assert not is_legacy(batch)
    with pytest.raises(CorruptBatch, match="format 2"):
        LegacyMessage(batch)
