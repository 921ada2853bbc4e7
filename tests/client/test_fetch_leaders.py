"""The consumer's machine without a network: leaders, replicas, transactions, and any history."""

from __future__ import annotations

import random

import pytest
from tests.client.fetch_lab import (
    OTHER_ID,
    Lab,
    T,
    U,
    aborted,
    batch,
    marker,
    partition,
    transactional,
)
from tests.support.run_seed import seeds

from odradek.client.core.fetch_settings import READ_COMMITTED
from odradek.client.core.offset_lookups import EARLIEST, LATEST
from odradek.client.errors import (
    DisconnectedError,
    OffsetOutOfRangeError,
)
from odradek.model.errors import ErrorCode as E
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import FetchableTopicResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from odradek.wire.generated.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def offsets(request):
    return {p.partition: p.fetch_offset for t in request.topics for p in t.partitions}


# -- offsets that the log does not have ----------------------------------------------------


def test_out_of_range_goes_where_the_policy_says():
    lab = Lab(reset="latest")
    lab.assign(T, at=99)
    lab.refuse(E.OFFSET_OUT_OF_RANGE)
    assert lab.answer_lookup(offset=40) == LATEST
    assert lab.position() == 40


def test_out_of_range_without_a_policy():
    lab = Lab(reset="none")
    lab.assign(T, at=99)
    lab.refuse(E.OFFSET_OUT_OF_RANGE)
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0.*99") as caught:
        lab.machine.take()
    assert caught.value.offset == 99
    assert lab.position() == 99


def test_out_of_range_for_an_earlier_position_is_late():
    lab = Lab(reset="none")
    lab.assign(T, at=99)
    lab.fetcher.seek(T, 5)
    lab.refuse(E.OFFSET_OUT_OF_RANGE)
    assert lab.machine.take() is None
    assert lab.position() == 5


# -- leaders -------------------------------------------------------------------------------


def test_a_new_leader_confirms_the_position():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0, 3, epoch=0), batch(3, 2, epoch=0))
    lab.machine.take()
    lab.leaders[0] = 2, 1
    lab.refresh()
    assert lab.machine.take() is None, "what came from the old leader is dropped"
    asked = lab.answer_check(0, 10)
    assert (asked.leader_epoch, asked.current_leader_epoch) == (0, 1)
    while offsets(lab.take().request) != {0: 3}:
        lab.poll()
    assert lab.position() == 3


def test_a_truncation_is_noticed():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0, 10))
    lab.read()
    lab.leaders[0] = 2, 1
    lab.refresh()
    lab.answer_check(0, 6)
    assert lab.position() == 6
    lab = Lab(reset="none")
    lab.assign(T, at=0)
    lab.answer(batch(0, 10))
    lab.read()
    lab.leaders[0] = 2, 1
    lab.refresh()
    lab.answer_check(0, 6)
    with pytest.raises(OffsetOutOfRangeError, match="truncated to offset 6, before offset 10"):
        lab.machine.take()


def test_an_epoch_that_the_new_leader_does_not_know():
    lab = Lab(reset="earliest")
    lab.assign(T, at=0)
    lab.answer(batch(0, 10))
    lab.read()
    lab.leaders[0] = 2, 1
    lab.refresh()
    lab.answer_check(-1, -1)
    assert lab.answer_lookup(offset=1) == EARLIEST


def test_a_committed_offset_is_validated_first():
    lab = Lab()
    lab.assign(T)
    lab.fetcher.seek(T, 8, 0)
    lab.poll()
    assert not lab.pending()
    lab.answer_check(-1, -1, code=E.NOT_LEADER_OR_FOLLOWER)
    assert not lab.pending(OffsetForLeaderEpochRequest)
    lab.pass_time(2_000)
    lab.answer_check(0, 8)
    assert offsets(lab.take().request) == {0: 8}


def test_a_late_check_is_ignored():
    lab = Lab()
    lab.assign(T)
    lab.fetcher.seek(T, 8, 0)
    lab.poll()
    lab.fetcher.seek(T, 20)
    lab.answer_check(0, 3)
    assert lab.position() == 20


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    lab = Lab(reset="latest")
    lab.assign(T, at=0)
    lab.answer(batch(0, 10))
    lab.read()
    lab.refuse(E.UNKNOWN_TOPIC_ID)
    lab.topic_id = OTHER_ID
    lab.refresh()
    assert lab.answer_lookup(offset=0) == EARLIEST
    lab.refuse(E.UNKNOWN_TOPIC_ID)  # it was sent before the metadata came
    request = lab.take().request
    assert (offsets(request), request.topics[0].topic_id) == ({0: 0}, OTHER_ID)


# -- the closest replica -------------------------------------------------------------------


def test_the_closest_replica_is_used_for_a_while():
    lab = Lab(rack="r")
    lab.assign(T, at=0)
    assert lab.answer(data=[partition(preferred_read_replica=2)]).rack_id == "r"
    assert lab.pending()[0].link == (2, "fetch")
    lab.answer(batch(0))
    lab.read()
    lab.refuse(E.OFFSET_OUT_OF_RANGE)
    assert lab.position() == 1, "the replica lags behind"
    assert lab.pending()[0].link == (1, "fetch")
    lab.answer(data=[partition(preferred_read_replica=2)])
    lab.now += 400_000
    lab.answer()
    assert lab.pending()[0].link == (1, "fetch"), "the leader is asked again"
    lab.answer(data=[partition(preferred_read_replica=2)])
    lab.fail(DisconnectedError("gone"))
    lab.pass_time(1_500)
    assert lab.pending()[0].link == (1, "fetch")


def test_a_replica_that_is_not_known_is_asked_for():
    """The leader may name a broker that was down when the client asked for all brokers."""
    lab = Lab(rack="r")
    lab.assign(T, at=0)
    before = len(lab.sent)
    lab.answer(data=[partition(preferred_read_replica=9)])
    assert not lab.pending(), "the leader would say the same again"
    lab.pass_time(1_500)
    assert [type(each) for each in lab.sent[before:]] == [MetadataRequest, FetchRequest]
    assert lab.pending()[0].link == (1, "fetch")


# -- transactions --------------------------------------------------------------------------

HISTORY = (
    batch(0),
    transactional(1, 10),
    transactional(2, 20),
    marker(3, 10, committed=False),
    transactional(4, 10),
    marker(5, 10, committed=True),
    transactional(6, 20),
    marker(7, 20, committed=False),
    batch(8),
    marker(9, 30, committed=False),
)


def test_aborted_records_are_left_out_when_reading_committed():
    lab = Lab(isolation=READ_COMMITTED)
    lab.assign(T, at=0)
    records = b"".join(HISTORY)
    lab.answer(data=[partition(records, aborted_transactions=aborted((20, 2), (10, 1)))])
    assert lab.read() == [0, 4, 8]
    assert lab.position() == 10, "behind the marker at the end"


def test_all_records_are_seen_when_reading_uncommitted():
    lab = Lab()
    lab.assign(T, at=0)
    records = b"".join(HISTORY)
    lab.answer(data=[partition(records, aborted_transactions=aborted((20, 2), (10, 1)))])
    assert lab.read() == [0, 1, 2, 4, 6, 8]


# -- any history ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20))
def test_no_record_is_lost_or_doubled(seed):
    """With failing requests, moving leaders and a user that pauses, each record comes once, in order."""
    draw = random.Random(seed)
    lab = Lab()
    lab.assign(T, U, at=0)
    read = {T: [], U: []}
    for _ in range(400):
        action = draw.random()
        if action < 0.5 and lab.asks:
            answer_at_random(lab, draw)
        elif action < 0.8:
            some = lab.machine.take()
            if some is not None:
                read[some.topic_partition] += some.offsets()
        elif action < 0.85:
            lab.fetcher.pause(draw.choice([T, U]), is_paused=draw.random() < 0.5)
        elif action < 0.87:
            index = draw.randrange(2)
            lab.leaders[index] = draw.choice([1, 2]), lab.leaders[index][1] + 1
            lab.routes.forget_topic("t")
        lab.pass_time(draw.choice([0, 0, 10, 200]))
    for key, found in read.items():
        assert found == list(range(len(found)))
        assert lab.position(key) in (len(found), None)
        lab.fetcher.pause(key, is_paused=False)
    before = {key: len(found) for key, found in read.items()}
    for _ in range(5000):
        if lab.asks:
            answer_at_random(lab, draw)
        if (some := lab.machine.take()) is not None:
            read[some.topic_partition] += some.offsets()
        lab.pass_time(10)
        if all(len(read[key]) > count for key, count in before.items()):
            break
    else:
        pytest.fail(f"a partition is no longer read: {before}")
    assert all(found == list(range(len(found))) for found in read.values())


def answer_at_random(lab, draw):
    ask = draw.choice(lab.asks)
    lab.asks.remove(ask)
    if draw.random() < 0.1:
        ask.on_error(DisconnectedError("gone"), lab.now)
    elif isinstance(ask.request, OffsetForLeaderEpochRequest):
        ends = [
            EpochEndOffset(partition=p.partition, leader_epoch=p.leader_epoch, end_offset=10**6)
            for p in ask.request.topics[0].partitions
        ]
        topic = OffsetForLeaderTopicResult(topic="t", partitions=ends)
        ask.on_answer(OffsetForLeaderEpochResponse(topics=[topic]), lab.now)
    else:
        data = []
        for index in range(2):
            state = lab.fetcher.states[(T, U)[index]]
            at, epoch = state.fetch_offset, lab.leaders[index][1]
            chance = draw.random()
            if chance < 0.2:
                data.append(partition(index=index, error_code=E.NOT_LEADER_OR_FOLLOWER))
            elif chance < 0.8 and at >= 0:
                records = b"".join(batch(at + n, epoch=epoch) for n in range(draw.randint(1, 4)))
                data.append(partition(records, index=index))
        response = ask.response_class(session_id=1)
        response.responses = [FetchableTopicResponse(topic_id=lab.topic_id, partitions=data)]
        ask.on_answer(response, lab.now)
