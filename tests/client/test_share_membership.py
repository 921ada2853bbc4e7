"""Membership in a share group: heartbeats, assignments, and joining again."""

from __future__ import annotations

import pytest

from odradek.client.errors import BrokerError, DisconnectedError, SecurityError
from odradek.client.share.membership import FIRST_WAIT_MS, RETRY_MS, ShareMembership
from odradek.model.errors import ErrorCode
from odradek.wire.generated.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = b"t" * 16


def response(epoch=1, partitions=None, code=0):
    assignment = None
    if partitions is not None:
        topics = [TopicPartitions(topic_id=TOPIC, partitions=partitions)] if partitions else []
        assignment = Assignment(topic_partitions=topics)
    return ShareGroupHeartbeatResponse(
        error_code=code,
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=assignment,
    )


def member():
    return ShareMembership("workers", "me", ["b", "a", "b"], rack="north")


def joined():
    tested = member()
    assert tested.request(0) is not None
    assert not tested.answered(response(3, [0, 1]), 0)
    return tested


def test_a_member_joins_and_stays():
    tested = member()
    request = tested.request(0)
    assert (request.group_id, request.member_id, request.member_epoch) == ("workers", "me", 0)
    assert (request.subscribed_topic_names, request.rack_id) == (["a", "b"], "north")
    assert tested.request(0) is None, "a heartbeat is in flight"
    assert tested.wait_ms(0) is None
    tested.answered(response(3, [0, 1]), 100)
    assert (tested.epoch, tested.assigned) == (3, ((TOPIC, 0), (TOPIC, 1)))
    assert tested.wait_ms(100) == 5_000
    assert tested.request(5_099) is None
    request = tested.request(5_100)
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (
        3,
        None,
        None,
    )
    tested.answered(response(4), 5_200)
    assert tested.assigned == ((TOPIC, 0), (TOPIC, 1)), "without a new assignment it stays"


def test_a_new_member_asks_soon_for_its_partitions():
    tested = member()
    now_ms = 0
    waits = []
    for _ in range(7):
        tested.request(now_ms)
        tested.answered(response(1, []), now_ms)
        waits.append(tested.wait_ms(now_ms))
        now_ms += waits[-1]
    assert waits == [FIRST_WAIT_MS * 2**n for n in range(5)] + [5_000, 5_000]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_member_that_is_not_known_joins_again_at_once(code):
    tested = joined()
    tested.request(5_000)
    assert not tested.answered(response(code=code), 5_000)
    assert tested.assigned == ()
    request = tested.request(5_000)
    assert (request.member_id, request.member_epoch) == ("me", 0)
    assert request.subscribed_topic_names == ["a", "b"]


@pytest.mark.parametrize(
    ("code", "has_moved"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
def test_an_absent_coordinator_is_asked_again(code, has_moved):
    tested = joined()
    tested.request(5_000)
    assert tested.answered(response(code=code), 5_000) is has_moved
    assert (tested.epoch, len(tested.assigned)) == (3, 2)
    assert tested.wait_ms(5_000) == RETRY_MS
    request = tested.request(5_000 + RETRY_MS)
    assert (request.member_epoch, request.subscribed_topic_names) == (3, ["a", "b"])


def test_a_broken_connection_is_no_end():
    tested = joined()
    tested.request(5_000)
    tested.failed(5_000, DisconnectedError("gone"))
    assert tested.wait_ms(5_000) == RETRY_MS
    tested.request(6_000)
    with pytest.raises(SecurityError):
        tested.failed(6_000, SecurityError("refused"))


def test_the_advice_says_how_to_enable_share_groups():
    tested = member()
    tested.request(0)
    with pytest.raises(BrokerError) as raised:
        tested.answered(response(code=ErrorCode.UNSUPPORTED_VERSION), 0)
    assert "share.version=1" in raised.value.advice


def test_a_group_of_another_type_is_an_error():
    tested = member()
    tested.request(0)
    tested.answered(response(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0)
    tested.request(1_000)
    with pytest.raises(BrokerError, match="GROUP_MAX_SIZE_REACHED"):
        tested.answered(response(code=ErrorCode.GROUP_MAX_SIZE_REACHED), 1_000)


def test_a_member_leaves_once():
    tested = joined()
    request = tested.leave()
    assert (request.member_id, request.member_epoch) == ("me", -1)
    assert tested.leave() is None
    assert tested.request(10_000) is None
    assert tested.assigned == ()


def test_who_never_joined_does_not_leave():
    assert member().leave() is None
    tested = member()
    tested.request(0)
    assert tested.leave() is not None, "the heartbeat that joins may have arrived"
