"""The share coordinator: states are kept, old writers are fenced, redundant records are deleted."""

from __future__ import annotations

from random import Random

import pytest
from tests.coordinator.support import image_of, topic_id
from tests.share_state.support import ORDERS, STOCK, TOPICS, UPDATES_MAX
from tests.support.run_seed import seeds

from odradek.broker.coordinator import share_apis
from odradek.core.coordinator.record import decode
from odradek.core.share_coordinator.key import SharePartitionKey, parse
from odradek.core.share_coordinator.records import MESSAGES
from odradek.model.errors import ErrorCode
from odradek.records.record import iterate_fields
from odradek.wire.generated.share_snapshot_value import ShareSnapshotValue
from odradek.wire.generated.share_update_value import ShareUpdateValue
from odradek.wire.generated.write_share_group_state_request import WriteShareGroupStateRequest

PRUNE_MS = 5 * 60_000


def values(log):
    """The values in the log from its start offset on."""
    found = []
    for batch in log.views():
        for offset, key, value in iterate_fields(batch):
            if offset >= log.start_offset:
                found.append(decode(key, value, MESSAGES).value)
    return found


def test_a_state_survives_a_restart(coordinator):
    coordinator.initialize(start=10)
    coordinator.write((10, 19, 2, 1), (20, 29, 0, 1), complete=10)
    coordinator.write((25, 25, 4, 5), start=20, complete=1)
    before = coordinator.state()
    assert before == (20, [(20, 24, 0, 1), (25, 25, 4, 5), (26, 29, 0, 1)])
    assert coordinator.summary() == (1, 0, 20, 1)
    coordinator.restart()
    assert coordinator.state() == before
    assert coordinator.summary() == (1, 0, 20, 1)


def test_what_is_not_initialized_is_refused(coordinator):
    assert coordinator.write((0, 1, 2, 1)) is ErrorCode.INVALID_REQUEST
    assert coordinator.read() is ErrorCode.INVALID_REQUEST
    assert coordinator.summary() == (0, 0, -1, -1)
    assert not coordinator.delete().error_code
    assert coordinator.initialize(SharePartitionKey("g", topic_id("orders"), 3)) is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert coordinator.initialize(SharePartitionKey("g", topic_id("orders"), -1)) is (
        ErrorCode.INVALID_REQUEST
    )


def test_epochs_fence(coordinator):
    coordinator.initialize(epoch=5)
    assert coordinator.initialize(epoch=4) is ErrorCode.FENCED_STATE_EPOCH
    assert coordinator.write(state_epoch=4) is ErrorCode.FENCED_STATE_EPOCH
    coordinator.read(leader_epoch=7)
    assert coordinator.read(leader_epoch=6) is ErrorCode.FENCED_LEADER_EPOCH
    assert coordinator.write(state_epoch=5, leader_epoch=6) is ErrorCode.FENCED_LEADER_EPOCH
    coordinator.restart()
    assert coordinator.write(state_epoch=5, leader_epoch=6) is ErrorCode.FENCED_LEADER_EPOCH
    assert not coordinator.write(state_epoch=5, leader_epoch=7).error_code


def test_negative_epochs_are_refused(coordinator):
    """With -1, a writer of the past would not be fenced (KAFKA-20743)."""
    assert coordinator.initialize(epoch=-1) is ErrorCode.INVALID_REQUEST
    coordinator.initialize(epoch=5)
    for refused in (
        coordinator.initialize(epoch=-1),
        coordinator.write((0, 9, 2, 1), state_epoch=-1),
        coordinator.write((0, 9, 2, 1), state_epoch=5, leader_epoch=-1),
        coordinator.read(leader_epoch=-1),
    ):
        assert refused is ErrorCode.INVALID_REQUEST
    assert coordinator.summary() == (5, 0, 0, 0)


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_a_late_write_moves_nothing_back(coordinator, is_snapshot):
    coordinator.initialize(start=0)
    for _ in range(UPDATES_MAX - 1 if is_snapshot else 0):
        coordinator.write()
    coordinator.write((12, 14, 2, 1), start=10, complete=3)
    assert coordinator.summary() == (1, 0, 10, 3)
    coordinator.write((5, 11, 0, 1), start=5, complete=6)
    assert coordinator.summary() == (1, 0, 10, 3)
    assert coordinator.state() == (10, [(10, 11, 0, 1), (12, 14, 2, 1)])
    coordinator.write(start=10, complete=2)
    assert coordinator.summary() == (1, 0, 10, 3)
    coordinator.restart()
    assert coordinator.summary() == (1, 0, 10, 3)
    coordinator.write(start=11, complete=2)
    assert coordinator.summary() == (1, 0, 11, 2)


def test_a_new_initialization_forgets_batches(coordinator):
    coordinator.initialize(start=0)
    coordinator.write((0, 9, 2, 1))
    coordinator.initialize(epoch=2, start=-1)
    assert coordinator.state() == (-1, [])
    assert coordinator.summary() == (2, 0, -1, -1)


def test_every_few_updates_there_is_a_snapshot(coordinator):
    coordinator.initialize()
    for number in range(2 * UPDATES_MAX + 2):
        coordinator.write((number, number, 2, 1))
    kinds = [type(each) for each in values(coordinator.log_of())]
    update = [ShareUpdateValue] * UPDATES_MAX
    assert kinds == [ShareSnapshotValue, *update, ShareSnapshotValue, *update, ShareSnapshotValue]
    last = values(coordinator.log_of())[-1]
    assert last.snapshot_epoch == 2
    assert [(each.first_offset, each.last_offset) for each in last.state_batches] == [(0, 7)]


def test_redundant_records_are_deleted(coordinator):
    coordinator.initialize()
    for number in range(UPDATES_MAX + 1):
        coordinator.write((number, number, 2, 1))
    before = coordinator.state()
    coordinator.run(PRUNE_MS + 1)
    log = coordinator.log_of()
    assert log.start_offset > 0
    assert isinstance(values(log)[0], ShareSnapshotValue)
    coordinator.restart()
    assert coordinator.state() == before


def test_an_idle_partition_gets_a_snapshot_that_repeats_its_state(make):
    coordinator = make(share_coordinator_state_topic_num_partitions=1)
    coordinator.initialize(STOCK)
    coordinator.write((3, 4, 2, 1), key=STOCK)
    stock = coordinator.state(STOCK)
    coordinator.run(PRUNE_MS // 2)
    coordinator.initialize(ORDERS)
    coordinator.run(PRUNE_MS)
    idle, *_ = [each for each in values(coordinator.log_of(STOCK)) if each.snapshot_epoch]
    assert idle.write_timestamp > idle.create_timestamp
    coordinator.restart()
    assert coordinator.state(STOCK) == stock


def test_nothing_is_deleted_while_the_newest_record_is_not_committed(make):
    coordinator = make(is_replicated=True)
    key_data = coordinator.loop.create_task(_initialized(coordinator))
    coordinator.run(10)
    coordinator.run(PRUNE_MS + 1)
    log = coordinator.log_of()
    assert log.start_offset == 0
    log.commit()
    coordinator.loop.run_until_complete(key_data)


async def _initialized(coordinator):
    data = share_apis.initialize_share_group_state_request.PartitionData(state_epoch=1)
    request = share_apis.INITIALIZE.ask(ORDERS.group_id, {ORDERS: data})
    return await coordinator.shares.answer(share_apis.INITIALIZE, request)


def test_states_of_deleted_topics_are_deleted(coordinator):
    coordinator.initialize()
    coordinator.initialize(STOCK)
    coordinator.see(image_of({"stock": 1}), ((topic_id("orders"), "orders"),))
    coordinator.run()
    coordinator.see(image_of(TOPICS))
    assert coordinator.read() is ErrorCode.INVALID_REQUEST
    assert not coordinator.read(STOCK).error_code


@pytest.mark.parametrize("group_id", ["", "g"])
def test_a_request_without_a_group_or_partitions_gets_an_empty_response(coordinator, group_id):
    request = WriteShareGroupStateRequest(group_id=group_id)
    if group_id == "":
        request = share_apis.WRITE.ask(
            "", {ORDERS: share_apis.write_share_group_state_request.PartitionData()}
        )
    assert coordinator.get(coordinator.shares.answer(share_apis.WRITE, request)).results == []


def test_a_coordinator_that_does_not_run_refuses(coordinator):
    coordinator.initialize()
    coordinator.shares.shutdown()
    assert coordinator.read() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_text_of_a_key():
    key = SharePartitionKey("a:b", topic_id("orders"), 12)
    assert parse(key.text) == key
    for text in ("", "g", "g:0", " :" + key.text.split(":", 2)[2], "g:x:0", key.text[:-2] + "x"):
        with pytest.raises(ValueError, match=r".*"):
            parse(text)


@pytest.mark.parametrize("seed", seeds(8))
def test_random_operations_survive_restarts(make, seed):
    """Two coordinators see the same operations; one restarts often. They stay equal."""
    random = Random(seed)
    steady, restless = make(), make()
    keys = [SharePartitionKey(group, topic_id("orders"), n) for group in "ab" for n in range(3)]
    for _ in range(60):
        key = random.choice(keys)
        first = random.randrange(40)
        batch = (first, first + random.randrange(8), random.choice((0, 2, 4)), random.randint(1, 4))
        move = random.choice(("initialize", "write", "write", "write", "read", "delete"))
        leader_epoch = random.randrange(3)
        answers = []
        for each in (steady, restless):
            if move == "initialize":
                answers.append(each.initialize(key, first % 4, start=first - 1))
            elif move == "write":
                answers.append(
                    each.write(
                        batch, key=key, start=first - 3, state_epoch=3, leader_epoch=leader_epoch
                    )
                )
            elif move == "read":
                answers.append(each.state(key, leader_epoch))
            elif first < 8:
                answers.append(each.delete(key))
        assert [repr(each) for each in answers[:1]] == [repr(each) for each in answers[1:]], (
            f"seed {seed}"
        )
        if random.random() < 0.1:
            restless.restart()
    for key in keys:
        assert steady.state(key, 9) == restless.state(key, 9), f"seed {seed}"
