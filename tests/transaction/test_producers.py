"""InitProducerId: assigned ids and epochs, and fencing."""

from __future__ import annotations

import pytest
from tests.transaction.support import ID, PLACES

from odradek.core.transaction.transaction import EPOCH_LAST
from odradek.model.errors import ErrorCode

FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def use_up(coordinator, producer_id):
    """Let the producer have its last epoch but one."""
    shard = coordinator.transactions._shard(ID)
    state = shard.machine.state
    state.put(ID, state.transactions[ID]._replace(producer_epoch=EPOCH_LAST - 1))
    return producer_id, EPOCH_LAST - 1


def test_a_new_id_begins_with_epoch_0_and_everyone_after_raises_it(coordinator):
    producer_id, epoch = coordinator.initialize()
    assert epoch == 0
    assert coordinator.initialize() == (producer_id, 1)
    assert coordinator.initialize("other")[0] != producer_id


def test_a_producer_that_continues_gets_the_next_epoch_once(coordinator):
    producer_id, _ = coordinator.initialize()
    assert coordinator.initialize(producer=(producer_id, 0)) == (producer_id, 1)
    assert coordinator.initialize(producer=(producer_id, 0)) == (producer_id, 1), "asked again"
    assert coordinator.initialize() == (producer_id, 2)
    assert coordinator.initialize(producer=(producer_id, 1)) is FENCED
    assert coordinator.initialize(producer=(producer_id + 77, 1)) is FENCED


def test_the_epoch_before_is_not_remembered_by_the_next_coordinator(coordinator):
    producer_id, _ = coordinator.initialize()
    assert coordinator.initialize(producer=(producer_id, 0)) == (producer_id, 1)
    coordinator.restart()
    assert coordinator.initialize(producer=(producer_id, 0)) is FENCED
    assert coordinator.initialize(producer=(producer_id, 1)) == (producer_id, 2)


@pytest.mark.parametrize("level", [0, 2])
def test_an_open_transaction_is_aborted_for_a_successor(make, level):
    coordinator = make(level=level)
    first = coordinator.initialize()
    assert coordinator.add(first, version=level) is None
    assert coordinator.initialize() is CONCURRENT
    successor = coordinator.take_over()
    assert successor == (first[0], 2), "one epoch for the abort, which nobody is given"
    assert coordinator.phase() == "Empty"
    assert set(coordinator.outcomes()) == {(*place, False) for place in PLACES}
    assert {marker.producer_epoch for _, marker in coordinator.markers.written} == {1}
    assert coordinator.add(first, version=level) is FENCED
    assert coordinator.end(first, True, version=level) is FENCED
    assert coordinator.verify(first, *PLACES) is FENCED


def test_the_last_epoch_is_followed_by_another_producer_id(coordinator):
    producer_id, epoch = use_up(coordinator, coordinator.initialize()[0])
    assert coordinator.initialize() == (producer_id, epoch + 1)
    successor, epoch = coordinator.initialize()
    assert (successor != producer_id, epoch) == (True, 0)


def test_who_missed_the_other_producer_id_gets_it_again(coordinator):
    producer_id, epoch = use_up(coordinator, coordinator.initialize()[0])
    last = coordinator.initialize(producer=(producer_id, epoch))
    assert last == (producer_id, EPOCH_LAST)
    successor = coordinator.initialize(producer=last)
    assert successor[1] == 0
    assert coordinator.initialize(producer=last) == successor
    assert coordinator.initialize(producer=(producer_id, EPOCH_LAST - 1)) is FENCED


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": -1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_refused(coordinator, named, code):
    name = named.pop("transactional_id", ID)
    assert coordinator.initialize(name, **named) is code
    assert not coordinator.topic.partition(0).batches + coordinator.topic.partition(1).batches


def test_the_largest_timeout_is_allowed(coordinator):
    assert coordinator.initialize(transaction_timeout_ms=900_000)[1] == 0


def test_two_phase_commit_has_no_timeout_where_it_is_allowed(make):
    coordinator = make(transaction_two_phase_commit_enable="true")
    producer = coordinator.initialize(enable2_pc=True, transaction_timeout_ms=5)
    assert coordinator.add(producer) is None
    assert coordinator.describe().transaction_timeout_ms == 2**31 - 1
    coordinator.run(10 * 86_400_000)
    assert coordinator.phase() == "Ongoing"


def test_without_a_producer_id_the_client_is_to_ask_again(coordinator):
    coordinator.ids.is_available = False
    assert coordinator.initialize() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.ids.is_available = True
    assert coordinator.initialize()[1] == 0


def test_a_coordinator_that_is_not_one(coordinator):
    producer = coordinator.initialize()
    coordinator.transactions.on_resignation(0, 9)
    coordinator.transactions.on_resignation(1, 9)
    not_here = ErrorCode.NOT_COORDINATOR
    assert coordinator.initialize() is not_here
    assert coordinator.add(producer) is not_here
    assert coordinator.end(producer, True) is not_here
    assert coordinator.describe().error_code == not_here
    coordinator.transactions.shutdown()
    assert coordinator.initialize() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_cannot_be_written_has_not_happened(coordinator):
    producer = coordinator.initialize()
    for partition in coordinator.topic.partitions.values():
        partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert coordinator.initialize() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.add(producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for partition in coordinator.topic.partitions.values():
        partition.refusal = None
    assert coordinator.phase() == "Empty"
    assert coordinator.add(producer) is None
