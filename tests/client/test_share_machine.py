"""The state machine of the share consumer: its requests, and what becomes of its records."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import seeds

from odradek.client.errors import BrokerError, DisconnectedError
from odradek.client.share.acknowledgements import (
    SAME_TYPES_MIN,
    AcknowledgeType,
    TopicIdPartition,
    batches,
)
from odradek.client.share.acquired import Acquired
from odradek.client.share.leader import ShareLimits
from odradek.client.share.machine import NotAcknowledgedError, ShareMachine
from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import end_of_transaction_batch
from odradek.wire.generated import share_acknowledge_response as acknowledged
from odradek.wire.generated.share_acknowledge_request import ShareAcknowledgeRequest
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GAP, RENEW = AcknowledgeType.GAP, AcknowledgeType.RENEW
TOPIC = b"t" * 16
A, B = TopicIdPartition(TOPIC, 0, "jobs"), TopicIdPartition(TOPIC, 1, "jobs")
LOCK_MS = 30_000


def batch(first, *values):
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(1, None, value)
    data = builder.build()
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def machine(*, is_explicit=True, **limits):
    return ShareMachine("workers", "me", ShareLimits(**limits), is_explicit=is_explicit)


def sent(tested, now_ms=0):
    """Return the requests by broker."""
    return dict(tested.requests(now_ms))


def partitions(request):
    """Return what a request says about each partition: offsets and types."""
    return {
        p.partition_index: [
            (b.first_offset, b.last_offset, b.acknowledge_types) for b in p.acknowledgement_batches
        ]
        for topic in request.topics
        for p in topic.partitions
    }


def forgotten(request):
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def fetched(*results, code=0, nodes=()):
    """A response of ShareFetch."""
    topic = ShareFetchableTopicResponse(topic_id=TOPIC, partitions=list(results))
    return ShareFetchResponse(
        error_code=code,
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[topic] if results else [],
        node_endpoints=list(nodes),
    )


def data(index, first=0, count=0, *, error=0, outcome=0, deliveries=1):
    """The result of a partition, with `count` acquired records."""
    values = [b"%d" % (first + n) for n in range(count)]
    return PartitionData(
        partition_index=index,
        error_code=error,
        acknowledge_error_code=outcome,
        records=memoryview(batch(first, *values) if count else b""),
        acquired_records=[
            AcquiredRecords(
                first_offset=first, last_offset=first + count - 1, delivery_count=deliveries
            )
        ]
        if count
        else [],
    )


def answered(*outcomes, code=0):
    """A response of ShareAcknowledge; each outcome is a partition index and an error code."""
    return acknowledged.ShareAcknowledgeResponse(
        error_code=code,
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[
            acknowledged.ShareAcknowledgeTopicResponse(
                topic_id=TOPIC,
                partitions=[
                    acknowledged.PartitionData(partition_index=index, error_code=error)
                    for index, error in outcomes
                ],
            )
        ],
    )


def delivered(tested, *, node=1, count=3, now_ms=0):
    """Fetch `count` records of A from a broker and take them."""
    tested.assign({A: node})
    tested.fetch_more()
    assert list(sent(tested, now_ms)) == [node]
    tested.answered(node, fetched(data(0, 0, count)), now_ms)
    return tested.take(now_ms)


def test_a_session_names_what_has_changed():
    tested = machine()
    tested.assign({A: 1, B: 1})
    tested.fetch_more()
    request = sent(tested)[1]
    assert isinstance(request, ShareFetchRequest)
    assert (request.share_session_epoch, partitions(request)) == (0, {0: [], 1: []})
    assert (request.group_id, request.member_id) == ("workers", "me")
    assert sent(tested) == {}, "one request is in flight"
    tested.answered(1, fetched(), 0)
    request = sent(tested)[1]
    assert (request.share_session_epoch, partitions(request)) == (1, {})
    tested.answered(1, fetched(), 0)
    tested.assign({B: 1})
    request = sent(tested)[1]
    assert (request.share_session_epoch, partitions(request)) == (2, {})
    assert forgotten(request) == [0]


def test_acknowledgements_travel_with_the_next_fetch():
    tested = machine()
    records = delivered(tested)
    assert [(r.offset, r.value, r.delivery_count) for r in records] == [
        (0, b"0", 1),
        (1, b"1", 1),
        (2, b"2", 1),
    ]
    for offset, kind in enumerate((ACCEPT, RELEASE, REJECT)):
        tested.acknowledge(("jobs", 0, offset), kind, 0)
    tested.begin_poll(0)
    assert sent(tested) == {}, "records are not fetched unasked"
    tested.fetch_more()
    request = sent(tested)[1]
    assert (request.share_session_epoch, partitions(request)) == (1, {0: [(0, 2, [1, 2, 3])]})
    tested.answered(1, fetched(data(0)), 0)
    (result,) = tested.take_results()
    assert (result.topic, result.partition, result.error) == ("jobs", 0, None)
    assert result.types == {0: ACCEPT, 1: RELEASE, 2: REJECT}
    assert tested.take_results() == []


def test_explicit_acknowledgement_is_demanded():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    with pytest.raises(NotAcknowledgedError, match=r"2 records are not acknowledged.* offset 1 of"):
        tested.begin_poll(0)
    with pytest.raises(ValueError, match="offset 0 of jobs-0 does not wait"):
        tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)


def test_implicit_acknowledgement_accepts():
    tested = machine(is_explicit=False)
    delivered(tested)
    tested.begin_poll(0)
    tested.fetch_more()
    assert partitions(sent(tested)[1]) == {0: [(0, 2, [1])]}


def test_urgent_acknowledgements_need_no_fetch():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 1), RELEASE, 5)
    tested.hurry(since_ms=4)
    assert sent(tested) == {}, "they have not waited long enough"
    tested.hurry(since_ms=5)
    request = sent(tested)[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert (request.share_session_epoch, request.is_renew_ack) == (1, False)
    assert partitions(request) == {0: [(1, 1, [2])]}
    assert tested.has_acknowledgements
    tested.answered(1, answered((0, 0)), 0)
    assert not tested.has_acknowledgements


def test_a_renewed_lock_begins_again():
    tested = machine()
    delivered(tested)
    assert tested.lock_remaining_ms(("jobs", 0, 0), 1_000) == LOCK_MS - 1_000
    assert tested.ending(LOCK_MS // 2) == []
    assert len(tested.ending(LOCK_MS // 2 + 1)) == 3
    assert tested.ending(LOCK_MS) == [], "they have ended"
    tested.acknowledge(("jobs", 0, 0), RENEW, 1_000)
    tested.hurry()
    request = sent(tested, 1_000)[1]
    assert (partitions(request), request.is_renew_ack) == ({0: [(0, 0, [4])]}, True)
    tested.answered(1, answered((0, 0)), 3_000)
    assert tested.lock_remaining_ms(("jobs", 0, 0), 3_000) == LOCK_MS - 2_000
    assert tested.lock_remaining_ms(("jobs", 0, 1), 3_000) == LOCK_MS - 3_000
    assert tested.unacknowledged == 3, "a renewed record still has to be acknowledged"


def test_gaps_are_acknowledged_but_not_reported():
    tested = machine()
    tested.assign({A: 1})
    tested.fetch_more()
    sent(tested)
    answer = data(0, 3, 2)
    answer.records = memoryview(
        batch(2, b"of another member") + batch(3, b"3", b"4") + end_of_transaction(5)
    )
    answer.acquired_records = [
        AcquiredRecords(first_offset=1, last_offset=1, delivery_count=1),
        AcquiredRecords(first_offset=3, last_offset=3, delivery_count=7),
        AcquiredRecords(first_offset=4, last_offset=5, delivery_count=2),
    ]
    tested.answered(1, fetched(answer), 0)
    assert [(r.offset, r.delivery_count) for r in tested.take(0)] == [(3, 7), (4, 2)]
    tested.acknowledge(("jobs", 0, 3), ACCEPT, 0)
    tested.acknowledge(("jobs", 0, 4), ACCEPT, 0)
    tested.fetch_more()
    assert partitions(sent(tested)[1]) == {0: [(1, 1, [0]), (3, 5, [1, 1, 0])]}
    tested.answered(1, fetched(data(0)), 0)
    assert [result.types for result in tested.take_results()] == [{3: ACCEPT, 4: ACCEPT}]


def end_of_transaction(offset):
    made = bytearray(
        end_of_transaction_batch(
            True, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )
    )
    made[:8] = offset.to_bytes(8, "big")
    return bytes(made)


def test_a_corrupt_batch_is_rejected():
    broken = bytearray(batch(0, b"0", b"1"))
    broken[-1] ^= 1
    ranges = [AcquiredRecords(first_offset=0, last_offset=2, delivery_count=1)]
    acquired = Acquired(A, memoryview(bytes(broken) + batch(2, b"2")), ranges)
    assert [r.offset for r in acquired.records] == [2]
    assert acquired.types == {0: REJECT, 1: REJECT}
    assert acquired.error is not None
    assert acquired.error.code is ErrorCode.CORRUPT_MESSAGE


def test_records_after_bad_boundaries_are_released():
    ranges = [AcquiredRecords(first_offset=0, last_offset=2, delivery_count=1)]
    acquired = Acquired(A, memoryview(batch(0, b"0") + bytes(100)), ranges)
    assert [r.offset for r in acquired.records] == [0]
    assert acquired.types == {1: RELEASE, 2: RELEASE}
    assert acquired.error is not None


def test_a_lost_connection_ends_everything_of_its_broker():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.fetch_more()
    sent(tested)
    tested.acknowledge(("jobs", 0, 1), ACCEPT, 0)
    error = DisconnectedError("gone")
    tested.failed(1, error, 0)
    results = tested.take_results()
    assert [each.types for each in results] == [{0: ACCEPT}, {1: ACCEPT}]
    assert results[0].error is error
    assert isinstance(results[1].error, DisconnectedError)
    assert tested.take_is_metadata_stale()
    assert sent(tested) == {}, "the next attempt comes later"
    assert tested.wait_ms(0) == 100
    tested.acknowledge(("jobs", 0, 2), ACCEPT, 0)
    request = sent(tested, 100)[1]
    assert (request.share_session_epoch, partitions(request)) == (0, {0: []})
    assert [each.types for each in tested.take_results()] == [{2: ACCEPT}]


def test_buffered_records_of_a_lost_connection_are_dropped():
    tested = machine()
    tested.assign({A: 1, B: 2})
    tested.fetch_more()
    assert set(sent(tested)) == {1, 2}
    tested.answered(1, fetched(data(0, 0, 1)), 0)
    tested.answered(2, fetched(data(1, 0, 1)), 0)
    tested.fetch_more()
    assert sent(tested) == {}, "while records are buffered, no more are fetched"
    tested.failed(1, DisconnectedError("gone"), 0)
    assert [(r.partition, r.offset) for r in tested.take(0)] == [(1, 0)]


def test_records_whose_lock_has_ended_are_not_returned():
    tested = machine()
    tested.assign({A: 1})
    tested.fetch_more()
    sent(tested, 1_000)
    tested.answered(1, fetched(data(0, 0, 2)), 1_100)
    assert tested.take(1_000 + LOCK_MS) == []
    assert tested.unacknowledged == 0


@pytest.mark.parametrize("code", [122, 123], ids=["not found", "epoch"])
def test_a_lost_session_is_opened_again(code):
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.fetch_more()
    sent(tested)
    tested.answered(1, fetched(code=code), 0)
    assert tested.take_error() is None
    (result,) = tested.take_results()
    assert isinstance(result.error, BrokerError)
    assert sent(tested, 100)[1].share_session_epoch == 0


def test_a_refused_first_request_opens_no_session():
    tested = machine()
    tested.assign({A: 1})
    tested.fetch_more()
    sent(tested)
    tested.answered(1, fetched(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0)
    error = tested.take_error()
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert sent(tested, 100)[1].share_session_epoch == 0


def test_acknowledgements_that_could_not_be_stored_are_repeated():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.hurry()
    sent(tested)
    moving = ErrorCode.COORDINATOR_NOT_AVAILABLE
    tested.answered(1, answered((0, moving)), 0)
    assert tested.take_results() == []
    assert sent(tested, 99) == {}
    request = sent(tested, 100)[1]
    assert (request.share_session_epoch, partitions(request)) == (2, {0: [(0, 0, [1])]})
    tested.answered(1, answered((0, moving)), LOCK_MS + 1)
    (result,) = tested.take_results()
    assert isinstance(result.error, BrokerError)
    assert result.error.code is moving


def test_a_moved_leader_ends_the_locks_and_names_its_successor():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.fetch_more()
    sent(tested)
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = data(0, error=moved, outcome=moved)
    answer.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    node = NodeEndpoint(node_id=2, host="two", port=92)
    tested.answered(1, fetched(answer, nodes=[node]), 0)
    (result,) = tested.take_results()
    assert isinstance(result.error, BrokerError)
    assert result.error.code is moved
    (hint,) = tested.take_hints()
    assert hint == (A, 2, 5, "two", 92, None)
    assert tested.take_error() is None
    tested.assign({A: 2})
    requests = sent(tested)
    assert (requests[2].share_session_epoch, partitions(requests[2])) == (0, {0: []})
    requests = sent(tested, 100)
    assert forgotten(requests[1]) == [0]


def test_an_error_that_lasts_is_told():
    tested = machine()
    tested.assign({A: 1, B: 1})
    tested.fetch_more()
    sent(tested)
    tested.answered(1, fetched(data(0, error=29), data(1, error=3)), 0)
    error = tested.take_error()
    assert isinstance(error, BrokerError)
    assert (error.code, error.subject) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "partition jobs-0",
    )
    assert tested.take_error() is None, "the other topic may exist later"
    assert tested.take_is_metadata_stale()


def test_a_revoked_partition_is_acknowledged_and_forgotten():
    tested = machine()
    delivered(tested)
    tested.assign({B: 1})
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.fetch_more()
    request = sent(tested)[1]
    assert partitions(request) == {0: [(0, 0, [1])], 1: []}
    assert forgotten(request) == [0]


def test_records_that_arrive_after_the_revocation_are_returned():
    tested = machine()
    tested.assign({A: 1})
    tested.fetch_more()
    sent(tested)
    tested.assign({})
    tested.answered(1, fetched(data(0, 0, 1)), 0)
    assert [r.offset for r in tested.take(0)] == [0]


def test_a_record_limit_asks_one_broker_at_a_time():
    tested = machine(records_max=2, is_record_limit=True)
    tested.assign({A: 1, B: 2})
    tested.fetch_more()
    asked = []
    for _ in range(4):
        ((node, request),) = tested.requests(0)
        assert (request.share_acquire_mode, request.max_records) == (1, 2)
        assert tested.requests(0) == []
        asked.append(node)
        tested.answered(node, fetched(), 0)
    assert sorted(asked) == [1, 1, 2, 2]


def test_close_sends_what_is_left():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 1), ACCEPT, 0)
    tested.fetch_more()
    sent(tested)  # a fetch is in flight
    tested.acknowledge(("jobs", 0, 2), ACCEPT, 0)
    tested.close()
    assert sent(tested) == {}
    tested.answered(1, fetched(data(0, 3, 2)), 0)
    assert tested.take(0) == [], "the broker releases them"
    request = sent(tested)[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert (request.share_session_epoch, partitions(request)) == (-1, {0: [(2, 2, [1])]})
    assert not tested.is_idle
    tested.answered(1, answered((0, 0)), 0)
    assert tested.is_idle
    assert [each.error for each in tested.take_results()] == [None, None]


def test_close_waits_for_acknowledgements_in_flight():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.hurry()
    assert sent(tested)[1].share_session_epoch == 1
    tested.close()
    assert sent(tested) == {}
    tested.answered(1, answered((0, 0)), 0)
    assert not tested.is_idle, "the broker has the session still"
    assert sent(tested)[1].share_session_epoch == -1
    tested.answered(1, answered(), 0)
    assert tested.is_idle


def test_late_acknowledgements_do_not_spoil_others():
    tested = machine()
    delivered(tested, count=2)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, LOCK_MS - 1)
    tested.acknowledge(("jobs", 0, 1), ACCEPT, LOCK_MS)
    tested.hurry()
    assert partitions(sent(tested)[1]) == {0: [(0, 0, [1])]}
    tested.answered(1, answered((0, 0)), LOCK_MS)
    assert partitions(sent(tested)[1]) == {0: [(1, 1, [1])]}, "it is still urgent"
    ended = ErrorCode.INVALID_RECORD_STATE
    tested.answered(1, answered((0, ended)), LOCK_MS)
    first, second = tested.take_results()
    assert (first.types, first.error) == ({0: ACCEPT}, None)
    assert isinstance(second.error, BrokerError)
    assert (second.types, second.error.code) == ({1: ACCEPT}, ended)


def test_close_sends_late_acknowledgements_on_their_own():
    tested = machine()
    delivered(tested, count=2)
    tested.acknowledge(("jobs", 0, 0), ACCEPT, 0)
    tested.acknowledge(("jobs", 0, 1), ACCEPT, LOCK_MS)
    tested.close()
    epochs = []
    for _ in range(2):
        epochs.append(sent(tested)[1].share_session_epoch)
        tested.answered(1, answered((0, 0)), LOCK_MS)
    assert epochs == [1, -1]
    assert tested.is_idle


def test_a_late_renewal_is_not_sent_with_a_fetch():
    """The broker would refuse the request (INVALID_REQUEST)."""
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), RENEW, LOCK_MS)
    tested.fetch_more()
    request = sent(tested)[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack


def test_close_renews_no_late_record():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), RENEW, LOCK_MS)
    tested.close()
    request = sent(tested)[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert partitions(request) == {0: [(0, 0, [AcknowledgeType.RELEASE])]}
    assert not request.is_renew_ack


def test_a_fetch_renews_nothing():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), RENEW, 0)
    tested.fetch_more()
    request = sent(tested)[1]
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack


def test_close_renews_nothing():
    tested = machine()
    delivered(tested)
    tested.acknowledge(("jobs", 0, 0), RENEW, 0)
    tested.close()
    request = sent(tested)[1]
    assert (partitions(request), request.is_renew_ack) == ({0: [(0, 0, [2])]}, False)


def test_close_after_a_failure_is_quick():
    tested = machine()
    delivered(tested)
    tested.fetch_more()
    sent(tested)
    tested.close()
    tested.failed(1, DisconnectedError("gone"), 0)
    assert sent(tested) == {}
    assert tested.is_idle


def test_equal_types_are_sent_once():
    same = dict.fromkeys(range(5), ACCEPT)
    assert batches(same) == [(0, 4, [1])]
    assert batches({1: ACCEPT, 2: RELEASE, 5: REJECT}) == [(1, 2, [1, 2]), (5, 5, [3])]
    long = dict.fromkeys(range(10, 10 + SAME_TYPES_MIN), ACCEPT)
    mixed = {8: REJECT, 9: RELEASE, **long, 10 + SAME_TYPES_MIN: RELEASE}
    assert batches(mixed) == [(8, 9, [3, 2]), (10, 19, [1]), (20, 20, [2])]


@pytest.mark.parametrize("seed", seeds(50))
def test_batches_say_what_was_acknowledged(seed):
    chance = random.Random(seed)
    types = {}
    offset = 0
    for _ in range(chance.randrange(12)):
        offset += chance.choice((0, 0, 1, 5))
        for _ in range(chance.choice((1, 2, 9, 10, 30))):
            types[offset] = chance.choice((ACCEPT, RELEASE))
            offset += 1
        kind = chance.choice((ACCEPT, REJECT, GAP))
        for _ in range(chance.choice((0, 9, 10, 11))):
            types[offset] = kind
            offset += 1
    said = {}
    previous = -1
    for first, last, kinds in batches(types):
        assert previous < first <= last, seed
        assert len(kinds) in (1, last - first + 1), seed
        for position, offset in enumerate(range(first, last + 1)):
            said[offset] = kinds[position if len(kinds) > 1 else 0]
        previous = last
    assert said == types, seed
