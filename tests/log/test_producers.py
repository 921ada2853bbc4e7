"""Idempotent producers and transactions."""

from __future__ import annotations

import pytest
from tests.log.support import NOW_MS, append, batch, end_transaction, read_batches, values

from odradek.log import AppendOrigin, RecordsRefused
from odradek.model.errors import ErrorCode
from odradek.records.batch import SEQUENCE_MAX
from odradek.records.control import end_of_transaction_batch


def send(log, sequence, *contents, producer_id=7, producer_epoch=0, **fields):
    return append(
        log,
        *contents or (b"x",),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        **fields,
    )


def refused(code, function, *arguments, **keywords):
    with pytest.raises(RecordsRefused) as caught:
        function(*arguments, **keywords)
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def log(workspace):
    workspace.storage = workspace.new_storage(verify_transactions=False)
    return workspace.open()


def test_the_last_five_batches_are_known_again(log):
    sent = [send(log, number) for number in range(8)]
    end = log.log_end_offset
    for number in range(3, 8):
        info = send(log, number)
        assert info.is_duplicate
        assert (info.base_offset, info.last_offset) == (sent[number].base_offset, number)
    assert log.log_end_offset == end
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 2)


def test_a_duplicate_has_the_same_range(log):
    send(log, 0, b"a", b"b")
    assert send(log, 0, b"a", b"b").is_duplicate
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 0, b"a")
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 1, b"b")
    send(log, 2)


def test_a_gap_is_out_of_order_and_changes_nothing(log):
    send(log, 0)
    error = refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 2)
    assert "2" in error.message
    assert "1" in error.message
    send(log, 1)
    assert log.log_end_offset == 2


def test_sequences_wrap(log):
    send(log, SEQUENCE_MAX - 1, b"a", b"b", b"c")
    send(log, 1)
    assert send(log, SEQUENCE_MAX - 1, b"a", b"b", b"c").is_duplicate
    assert [each.last_sequence for each in read_batches(log)] == [0, 1]


def test_an_unknown_producer_begins_with_any_sequence(log):
    send(log, 4711)
    send(log, 4712)


def test_epochs(log):
    send(log, 0, producer_epoch=3)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, send, log, 1, producer_epoch=2)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 1, producer_epoch=4)
    send(log, 0, producer_epoch=4)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, send, log, 1, producer_epoch=3)
    send(log, 1, producer_epoch=4)


def test_producers_do_not_disturb_one_another(log):
    for sequence in range(3):
        for producer_id in range(5):
            send(log, sequence, producer_id=producer_id)
    assert [each.last_sequence for each in log.active_producers()] == [2] * 5


def test_idle_producers_are_forgotten(workspace, log):
    send(log, 0)
    workspace.clock.ms += 86_400_000 - 1
    log.expire_producers()
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 5)
    workspace.clock.ms += 1
    log.expire_producers()
    assert log.active_producers() == []
    send(log, 5, timestamp=workspace.clock.ms)


def test_a_coordinator_is_checked_for_epochs_only(log):
    fields = {"producer_id": 7, "is_transactional": True}
    log.append_as_leader(batch(producer_epoch=2, **fields), 0, AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(producer_epoch=2, **fields), 0, AppendOrigin.COORDINATOR)
    with pytest.raises(RecordsRefused):
        log.append_as_leader(batch(producer_epoch=1, **fields), 0, AppendOrigin.COORDINATOR)


# -- transactions -----------------------------------------------------------------------------


def begin(log, sequence=0, *contents, **fields):
    return send(log, sequence, *contents, is_transactional=True, **fields)


def test_the_last_stable_offset_waits_for_the_marker(log):
    append(log, b"plain")
    begin(log)
    append(log, b"plain")
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    end_transaction(log, True, 7)
    assert log.last_stable_offset == 4


def test_and_for_the_high_watermark(log):
    begin(log)
    end_transaction(log, True, 7, replicated=False)
    assert log.last_stable_offset == 0
    log.high_watermark = 1
    assert log.last_stable_offset == 0
    log.high_watermark = 2
    assert log.last_stable_offset == 2


def test_the_first_of_several_transactions_holds_it(log):
    begin(log, producer_id=1)
    begin(log, producer_id=2)
    end_transaction(log, True, 2)
    assert log.last_stable_offset == 0
    end_transaction(log, False, 1)
    assert log.last_stable_offset == 4


def test_aborted_transactions_come_with_reads_of_committed_records(log):
    begin(log, producer_id=1)
    begin(log, producer_id=2)
    end_transaction(log, False, 1)
    end_transaction(log, True, 2)
    begin(log, 1, producer_id=1)
    end_transaction(log, False, 1)
    data = log.read(0, 1 << 20, log.last_stable_offset, with_aborted=True)
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [
        (1, 0),
        (1, 4),
    ]
    assert log.read(0, 1 << 20, log.high_watermark).aborted_transactions == ()
    data = log.read(4, 1 << 20, log.last_stable_offset, with_aborted=True)
    assert [each.first_offset for each in data.aborted_transactions] == [4]


def test_aborts_are_found_over_segments(workspace):
    workspace.storage = workspace.new_storage(verify_transactions=False)
    log = workspace.open(segment_bytes=200)
    begin(log, producer_id=1)
    for _ in range(10):
        append(log, b"filler")
    end_transaction(log, False, 1)
    for _ in range(10):
        append(log, b"filler")
    assert [each.first_offset for each in log.aborted_transactions(0, 3)] == [0]
    assert [each.first_offset for each in log.aborted_transactions(11, 30)] == [0]
    assert log.aborted_transactions(12, 30) == []
    data = log.read(3, 100, log.last_stable_offset, with_aborted=True)
    assert [each.producer_id for each in data.aborted_transactions] == [1]


def test_an_open_transaction_takes_no_batch_from_outside(log):
    begin(log)
    refused(ErrorCode.INVALID_TXN_STATE, send, log, 1)
    begin(log, 1)


def test_markers_of_old_epochs_and_coordinators_are_refused(log):
    begin(log, producer_epoch=3)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, end_transaction, log, True, 7, 2)
    end_transaction(log, True, 7, 3, coordinator_epoch=5)
    begin(log, 1, producer_epoch=3)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        end_transaction,
        log,
        True,
        7,
        3,
        coordinator_epoch=4,
    )
    end_transaction(log, True, 7, 3, coordinator_epoch=6)


def test_markers_of_version_2_raise_the_epoch(log):
    def end(epoch):
        marker = end_of_transaction_batch(
            True, producer_id=7, producer_epoch=epoch, coordinator_epoch=0, timestamp=NOW_MS
        )
        return log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR, transaction_version=2)

    begin(log, producer_epoch=0)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, end, 0)
    end(1)
    end(1)  # sent again: written again, because no transaction is open
    begin(log, 0, producer_epoch=1)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, end, 1)
    end(2)


def test_a_marker_without_records_does_not_matter(log):
    end_transaction(log, False, 99)
    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 10) == []


def test_active_producers(log):
    begin(log, 0, b"a", b"b")
    (found,) = log.active_producers()
    assert found.producer_id == 7
    assert (found.last_sequence, found.transaction_first_offset) == (1, 0)
    assert found.coordinator_epoch == -1
    end_transaction(log, True, 7, coordinator_epoch=12)
    (found,) = log.active_producers()
    assert (found.transaction_first_offset, found.coordinator_epoch) == (-1, 12)


# -- verification (KIP-890) -------------------------------------------------------------------


@pytest.fixture
def strict_log(workspace):
    return workspace.open()


def test_a_transaction_begins_with_the_coordinators_consent(strict_log):
    log = strict_log
    refused(ErrorCode.INVALID_TXN_STATE, begin, log)
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    assert guard > 0
    assert log.start_verification(7, 0, 0, supports_epoch_bump=False) == guard
    payload = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    refused(
        ErrorCode.INVALID_TXN_STATE,
        log.append_as_leader,
        bytearray(payload),
        0,
        verification_guard=guard + 1,
    )
    log.append_as_leader(payload, 0, verification_guard=guard)
    assert log.producers.has_ongoing(7, 0)
    assert log.start_verification(7, 1, 0, supports_epoch_bump=False) == 0
    begin(log, 1)
    end_transaction(log, True, 7)
    refused(ErrorCode.INVALID_TXN_STATE, begin, log, 2)
    assert log.start_verification(7, 2, 0, supports_epoch_bump=False) == guard + 1


def test_an_old_guard_does_not_outlive_an_abort(strict_log):
    log = strict_log
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    end_transaction(log, False, 7)
    payload = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, payload, 0, verification_guard=guard)


def test_while_it_waits_the_lowest_sequence_goes_first(strict_log):
    log = strict_log
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    log.start_verification(7, 3, 0, supports_epoch_bump=False)
    payload = batch(producer_id=7, producer_epoch=0, base_sequence=3, is_transactional=True)
    refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        log.append_as_leader,
        payload,
        0,
        verification_guard=guard,
    )


def test_a_version_2_producer_without_state_begins_at_0(strict_log):
    log = strict_log
    guard = log.start_verification(7, 4, 0, supports_epoch_bump=True)
    payload = batch(producer_id=7, producer_epoch=0, base_sequence=4, is_transactional=True)
    refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        log.append_as_leader,
        payload,
        0,
        verification_guard=guard,
    )


def test_a_fenced_producer_is_not_verified(strict_log):
    log = strict_log
    send(log, 0, producer_epoch=5)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, log.start_verification, 7, 0, 4, False)


# -- across restarts --------------------------------------------------------------------------


@pytest.mark.parametrize("was_clean", [True, False])
def test_producers_are_known_after_a_restart(workspace, was_clean):
    workspace.storage = workspace.new_storage(verify_transactions=False)
    log = workspace.open(segment_bytes=400)
    for number in range(12):
        send(log, number)
    begin(log, producer_id=1)
    begin(log, producer_id=2)
    end_transaction(log, False, 2, coordinator_epoch=3)
    before = sorted(log.active_producers())
    stable = log.last_stable_offset
    if was_clean:
        log.close()
    log = workspace.reopen(arguments={"was_clean": was_clean}, segment_bytes=400)
    assert sorted(log.active_producers()) == before
    assert log.last_stable_offset == stable == 12
    assert [each.producer_id for each in log.aborted_transactions(0, 99)] == [2]
    assert send(log, 11).is_duplicate
    send(log, 12)
    end_transaction(log, True, 1)
    assert log.last_stable_offset == log.log_end_offset


def test_truncation_takes_producers_back(workspace):
    workspace.storage = workspace.new_storage(verify_transactions=False)
    log = workspace.open(segment_bytes=400)
    for number in range(20):
        send(log, number)
    begin(log, producer_id=1)
    end_transaction(log, False, 1)
    log.truncate_to(21)
    assert log.last_stable_offset == 20
    assert log.aborted_transactions(0, 99) == []
    log.truncate_to(9)
    assert log.last_stable_offset == 9
    (found,) = log.active_producers()
    assert (found.producer_id, found.last_sequence) == (7, 8)
    send(log, 9)
    assert len(values(log)) == 10
