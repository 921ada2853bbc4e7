"""EndTxn in both versions of the protocol, markers, and crashes."""

from __future__ import annotations

import pytest
from tests.coordinator.support import image_of
from tests.transaction.support import ID, PARTITIONS, PLACES
from tests.transaction.test_producers import use_up

from odradek.core.transaction.transaction import EPOCH_LAST, EPOCH_MAX, gathered
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.end_txn_request import EndTxnRequest

FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
DONE_1 = (-1, -1)
"""The answer of version 1 names no producer."""


def opened(coordinator, version):
    producer = coordinator.initialize()
    assert coordinator.add(producer, version=version) is None
    return producer


# -- version 1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_version_1_ends_once_and_says_so_again(coordinator, committed):
    producer = opened(coordinator, 0)
    assert coordinator.end(producer, committed, 0) == DONE_1
    coordinator.run(1)
    assert set(coordinator.outcomes()) == {(*place, committed) for place in PLACES}
    assert {m.producer_epoch for _, m in coordinator.markers.written} == {producer[1]}
    assert {m.transaction_version for _, m in coordinator.markers.written} == {0}
    assert coordinator.phase() == ("CompleteCommit" if committed else "CompleteAbort")
    assert coordinator.end(producer, committed, 0) == DONE_1
    assert coordinator.end(producer, not committed, 0) is INVALID
    assert coordinator.add(producer, version=0) is None, "the next transaction"


def test_version_1_knows_its_producer(coordinator):
    producer_id, epoch = opened(coordinator, 0)
    assert coordinator.end((producer_id + 1, epoch), True, 0) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert coordinator.end((producer_id, epoch + 1), True, 0) is FENCED
    assert coordinator.end((producer_id, epoch), True, 0, "nobody") is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert coordinator.end((producer_id, epoch), True, 0, "") is ErrorCode.INVALID_REQUEST


def test_version_1_cannot_end_what_was_not_begun(coordinator):
    producer = coordinator.initialize()
    assert coordinator.end(producer, True, 0) is INVALID
    assert coordinator.end(producer, False, 0) is INVALID


# -- version 2 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_version_2_raises_the_epoch_and_answers_a_question_asked_again(coordinator, committed):
    producer = opened(coordinator, 2)
    successor = coordinator.end(producer, committed)
    assert successor == (producer[0], producer[1] + 1)
    coordinator.run(1)
    assert {m.producer_epoch for _, m in coordinator.markers.written} == {successor[1]}
    assert {m.transaction_version for _, m in coordinator.markers.written} == {2}
    assert coordinator.end(producer, committed) == successor
    assert coordinator.end(producer, not committed) is INVALID
    assert coordinator.add(producer) is FENCED
    assert coordinator.end(successor, True) is INVALID
    assert coordinator.add(successor) is None


@pytest.mark.parametrize("ended", [None, True, False])
def test_version_2_may_abort_what_was_not_begun(coordinator, ended):
    producer = coordinator.initialize()
    if ended is not None:
        assert coordinator.add(producer) is None
        producer = coordinator.end(producer, ended)
        coordinator.run(1)
    before = len(coordinator.markers.written)
    successor = coordinator.end(producer, False)
    assert successor == (producer[0], producer[1] + 1)
    coordinator.run(1)
    assert coordinator.phase() == "CompleteAbort"
    assert len(coordinator.markers.written) == before


def test_version_2_goes_on_with_another_producer_id(coordinator):
    coordinator.initialize()
    before_last = use_up(coordinator, coordinator.initialize()[0])
    last = coordinator.initialize(producer=before_last)
    assert last[1] == EPOCH_LAST
    assert coordinator.add(last) is None
    successor = coordinator.end(last, True)
    assert successor[0] != last[0]
    assert successor[1] == 0
    coordinator.run(1)
    assert {m.producer_epoch for _, m in coordinator.markers.written} == {EPOCH_MAX}
    assert {m.producer_id for _, m in coordinator.markers.written} == {last[0]}
    assert coordinator.end(last, True) == successor, "asked again"
    assert coordinator.add(successor) is None
    assert coordinator.end(last, True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- while it ends --------------------------------------------------------------------------------


def test_everyone_has_to_wait_for_the_markers(coordinator):
    producer = opened(coordinator, 2)
    coordinator.markers.delay_ms = 50
    successor = coordinator.end(producer, True)
    assert coordinator.phase() == "PrepareCommit"
    for answer in (
        coordinator.add(successor),
        coordinator.add(producer),
        coordinator.end(successor, True),
        coordinator.end(producer, True),
        coordinator.end(producer, False),
        coordinator.initialize(),
        coordinator.verify(successor, PLACES[0]),
    ):
        assert answer is CONCURRENT
    coordinator.run(60)
    assert coordinator.phase() == "CompleteCommit"
    assert coordinator.end(producer, True) == successor


def test_a_partition_that_refuses_gets_its_marker_later(coordinator):
    producer = opened(coordinator, 2)
    late = PLACES[1]
    coordinator.markers.refused[late] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    coordinator.end(producer, True)
    coordinator.run(500)
    assert coordinator.phase() == "PrepareCommit"
    assert [(each.topic, each.partitions) for each in coordinator.describe().topics] == [
        (late.topic, [late.partition])
    ]
    assert coordinator.transactions.ending_count == 1
    coordinator.markers.refused.clear()
    coordinator.run(150)
    assert coordinator.phase() == "CompleteCommit"
    assert sorted(coordinator.outcomes()) == sorted((*place, True) for place in PLACES)


def test_a_deleted_partition_needs_no_marker(coordinator):
    producer = opened(coordinator, 2)
    coordinator.see(image_of({"stock": 1}, features={"transaction.version": 2}))
    coordinator.end(producer, True)
    coordinator.run(200)
    assert coordinator.phase() == "CompleteCommit"
    assert coordinator.outcomes() == [("stock", 0, True)]


def test_the_last_record_is_written_as_soon_as_it_can_be(coordinator):
    producer = opened(coordinator, 2)
    coordinator.markers.delay_ms = 50
    coordinator.end(producer, True)
    for partition in coordinator.topic.partitions.values():
        partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.run(1000)
    assert coordinator.phase() == "PrepareCommit"
    for partition in coordinator.topic.partitions.values():
        partition.refusal = None
    coordinator.run(150)
    assert coordinator.phase() == "CompleteCommit"
    assert len(coordinator.markers.written) == len(PLACES)


# -- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_stays_open(coordinator, version):
    producer = opened(coordinator, version)
    coordinator.restart()
    assert coordinator.phase() == "Ongoing"
    assert coordinator.markers.written == []
    assert coordinator.verify(producer, PLACES[0], ("stock", 5)) == {
        PLACES[0]: ErrorCode.NONE,
        ("stock", 5): ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert not isinstance(coordinator.end(producer, True, version), ErrorCode)
    coordinator.run(1)
    assert set(coordinator.outcomes()) == {(*place, True) for place in PLACES}


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_transaction_is_completed_by_the_next_coordinator(
    coordinator, version, committed
):
    producer = opened(coordinator, version)
    coordinator.markers.refused[PLACES[0]] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    coordinator.end(producer, committed, version)
    coordinator.run(10)
    coordinator.markers.refused.clear()
    coordinator.markers.written.clear()
    coordinator.restart()
    assert coordinator.phase() == ("CompleteCommit" if committed else "CompleteAbort")
    assert set(coordinator.outcomes()) == {(*place, committed) for place in PLACES}, (
        "those that had theirs get it again"
    )
    assert {m.coordinator_epoch for _, m in coordinator.markers.written} == {2}
    assert not isinstance(coordinator.end(producer, committed, version), ErrorCode)


def test_nothing_is_sent_before_the_decision_is_replicated(make):
    coordinator = make(is_replicated=True)

    def replicate():
        for partition in coordinator.topic.partitions.values():
            partition.commit()

    def patiently(question, *arguments):
        coordinator.loop.call_later(1, replicate)
        return question(*arguments)

    producer = patiently(coordinator.initialize)
    assert patiently(coordinator.add, producer) is None
    partitions = gathered(PLACES)
    ended = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    answer = coordinator.transactions.end(ended, 2)
    coordinator.run(500)
    assert not answer.done()
    assert coordinator.markers.written == []
    with pytest.raises(ApiError, match="CONCURRENT"):
        coordinator.transactions.add_partitions(ID, *producer, partitions, 2)
    replicate()
    coordinator.run(1)
    assert answer.result().producer_epoch == producer[1] + 1
    assert len(coordinator.markers.written) == len(PLACES)


# -- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted(make, level):
    coordinator = make(level=level)
    producer = coordinator.initialize(transaction_timeout_ms=20_000)
    assert coordinator.add(producer, version=level) is None
    coordinator.run(19_000)
    assert coordinator.phase() == "Ongoing"
    coordinator.run(12_000)
    assert coordinator.phase() == "CompleteAbort"
    assert set(coordinator.outcomes()) == {(*place, False) for place in PLACES}
    assert coordinator.add(producer, version=level) is FENCED
    recovered = coordinator.initialize(producer=producer)
    assert recovered == ((producer[0], producer[1] + 1) if level == 2 else FENCED)


def test_an_id_that_nobody_uses_is_forgotten(make):
    coordinator = make(
        transactional_id_expiration_ms=60_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=1000,
    )
    producer = coordinator.initialize()
    coordinator.initialize("open")
    coordinator.run(30_000)
    assert coordinator.add(producer) is None
    coordinator.run(45_000)
    assert coordinator.describe("open").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    coordinator.restart()
    assert coordinator.describe("open").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.phase() in {"Ongoing", "CompleteAbort"}, "it was used"
    assert coordinator.add(producer, name="open") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.initialize("open")[1] == 0


# -- elections ------------------------------------------------------------------------------------


def test_a_fenced_coordinator_sends_no_more_markers(coordinator):
    """Another coordinator has a later epoch, and completes the transaction."""
    producer = opened(coordinator, 2)
    coordinator.markers.refused[PLACES[0]] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    coordinator.end(producer, True)
    coordinator.run(10)
    coordinator.markers.written.clear()
    coordinator.markers.refused.clear()
    coordinator.run(1000)
    assert coordinator.markers.written == []
    assert coordinator.phase() == "PrepareCommit"
    assert coordinator.transactions.ending_count == 0

    coordinator.epoch += 1
    for partition in range(PARTITIONS):
        coordinator.transactions.on_election(partition, coordinator.epoch)
    coordinator.run(10)
    assert coordinator.phase() == "CompleteCommit"
    assert {m.coordinator_epoch for _, m in coordinator.markers.written} == {2}


def test_an_order_of_an_earlier_epoch_is_repeated_when_it_is_fenced(coordinator):
    """This broker is elected again before the result comes; it is fenced by itself."""
    producer = opened(coordinator, 2)
    coordinator.markers.delay_ms = 50
    coordinator.markers.refused[PLACES[0]] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    coordinator.end(producer, True)
    coordinator.run(10)
    coordinator.epoch += 1
    for partition in range(PARTITIONS):
        coordinator.transactions.on_election(partition, coordinator.epoch)
    coordinator.run(50)
    coordinator.markers.refused.clear()
    coordinator.run(200)
    assert coordinator.phase() == "CompleteCommit"
    epochs = {name: m.coordinator_epoch for name, m in coordinator.markers.written}
    assert epochs == {PLACES[0]: 2, PLACES[1]: 1, PLACES[2]: 1}


def test_the_markers_of_a_partition_that_moves_are_dropped(coordinator):
    producer = opened(coordinator, 2)
    coordinator.markers.delay_ms = 50
    coordinator.end(producer, True)
    coordinator.run(10)
    transactions = coordinator.transactions
    index = transactions.partition_for(ID)
    transactions.on_resignation(index, coordinator.epoch)
    assert coordinator.markers.dropped == [], "an old resignation"
    transactions.on_resignation(index, coordinator.epoch + 1)
    assert coordinator.markers.dropped == [index]
    coordinator.run(100)
    assert coordinator.phase() == "", "the result of the marker is not for this broker"
