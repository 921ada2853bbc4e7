"""Classic groups: assignment, rebalance and commits, with live and scripted coordinators."""

from __future__ import annotations

import threading
import uuid

import pytest

from odradek.client.admin.groups import delete_groups, describe_groups, list_groups
from odradek.client.cluster import Cluster
from odradek.client.commits import (
    CommittedOffset,
    Identity,
    commit_offsets,
    delete_offsets,
    fetch_offsets,
)
from odradek.client.core import group_protocol
from odradek.client.core.assignors import Member
from odradek.client.errors import BrokerError, MalformedResponseError
from odradek.client.group.group_consumer import GroupConsumer
from odradek.client.group.membership import Membership
from odradek.client.offsets import EARLIEST, LATEST
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.sync_group_response import SyncGroupResponse

JOIN, SYNC = JoinGroupRequest.API_KEY, SyncGroupRequest.API_KEY
HEARTBEAT, LEAVE = HeartbeatRequest.API_KEY, LeaveGroupRequest.API_KEY


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:12]}"


def fill(cluster, topic, count):
    with Producer(cluster) as producer:
        for n in range(count):
            producer.send(topic, str(n).encode(), key=str(n).encode())


def read(consumer, count):
    seen = []
    while len(seen) < count:
        for key, records in consumer.poll(500).items():
            seen += [(key, record.offset) for record in records]
    return seen


# -- against a live broker -----------------------------------------------------------------


def test_alone_it_gets_everything_and_goes_on_where_it_left_off(cluster, make_topic, group):
    topic = make_topic(partitions=3)
    fill(cluster, topic, 60)
    with GroupConsumer(cluster, group, [topic]) as consumer:
        first = read(consumer, 60)
        assert consumer.commit()
    fill(cluster, topic, 30)
    with GroupConsumer(cluster, group, [topic]) as consumer:
        second = read(consumer, 30)
    assert len(set(first + second)) == 90


def test_without_a_commit_it_begins_again(cluster, make_topic, group):
    topic = make_topic()
    fill(cluster, topic, 5)
    for _ in range(2):
        with GroupConsumer(cluster, group, [topic], reset_to=EARLIEST) as consumer:
            assert [offset for _, offset in read(consumer, 5)] == [0, 1, 2, 3, 4]


def test_latest_skips_what_was_there(cluster, make_topic, group):
    topic = make_topic()
    fill(cluster, topic, 5)
    assigned = []
    with GroupConsumer(
        cluster, group, [topic], reset_to=LATEST, on_assigned=assigned.append
    ) as consumer:
        consumer.poll(10)
        fill(cluster, topic, 2)
        assert [offset for _, offset in read(consumer, 2)] == [5, 6]
    assert assigned == [{TopicPartition(topic, 0): 5}]


@pytest.mark.parametrize("assignor", ["range", "sticky"])
def test_two_members_share(cluster, make_topic, group, bootstrap, assignor):
    topic = make_topic(partitions=4)
    fill(cluster, topic, 400)
    seen, revoked = [], []
    have_joined, stop = threading.Event(), threading.Event()

    def other():
        with (
            Cluster(bootstrap) as own,
            GroupConsumer(own, group, [topic], assignors=[assignor]) as consumer,
        ):
            while not stop.is_set():
                for key, records in consumer.poll(50).items():
                    seen.extend((key, record.offset) for record in records)
                if len(consumer.positions) == 2:
                    have_joined.set()

    thread = threading.Thread(target=other)
    with GroupConsumer(
        cluster,
        group,
        [topic],
        assignors=[assignor],
        on_revoked=lambda: revoked.append(consumer.commit()),
    ) as consumer:
        seen += read(consumer, 400)
        thread.start()
        while not have_joined.is_set() or len(consumer.positions) != 2:
            consumer.poll(50)
        (described,) = describe_groups(cluster, [group]).values()
        assert described.state == "Stable"
        assert described.assignor == assignor
        assert sorted(len(member.partitions) for member in described.members) == [2, 2]
        fill(cluster, topic, 200)
        while len(seen) < 600:
            for key, records in consumer.poll(50).items():
                seen += [(key, record.offset) for record in records]
        stop.set()
        thread.join(30)
    assert revoked
    assert len(seen) == len(set(seen)) == 600


def test_commits_of_outsiders(cluster, make_topic, group):
    topic = make_topic(partitions=2)
    keys = [TopicPartition(topic, index) for index in range(2)]
    wanted = {keys[0]: CommittedOffset(3, metadata="noted"), keys[1]: CommittedOffset(0)}
    assert commit_offsets(cluster, group, wanted) == dict.fromkeys(keys)
    assert fetch_offsets(cluster, group) == wanted
    assert fetch_offsets(cluster, group, [keys[0]]) == {keys[0]: wanted[keys[0]]}
    assert group in {listing.id for listing in list_groups(cluster)}
    assert delete_offsets(cluster, group, [keys[0]]) == {keys[0]: None}
    assert set(fetch_offsets(cluster, group)) == {keys[1]}
    assert delete_groups(cluster, [group]) == {group: None}
    error = describe_groups(cluster, [group])[group]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_protected(cluster, make_topic, group):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    with GroupConsumer(cluster, group, [topic]) as consumer:
        consumer.poll(10)
        error = delete_groups(cluster, [group])[group]
        assert isinstance(error, BrokerError)
        assert error.code == ErrorCode.NON_EMPTY_GROUP
        (error,) = commit_offsets(cluster, group, {key: CommittedOffset(1)}).values()
        assert isinstance(error, BrokerError)
        stale = Identity(99, "someone-else")
        (error,) = commit_offsets(cluster, group, {key: CommittedOffset(1)}, stale).values()
        assert isinstance(error, BrokerError)


# -- against a scripted one ----------------------------------------------------------------


@pytest.fixture
def scripted(fake):
    fake.topics["t"] = 2
    fake.answers[JOIN] = joined
    fake.answers[SYNC] = echo
    fake.answers[HEARTBEAT] = lambda _: HeartbeatResponse()
    fake.answers[LEAVE] = lambda _: LeaveGroupResponse()
    with Cluster(fake.address, timeout_ms=2000) as cluster:
        yield cluster


def joined(request, generation_id=1):
    """The member leads a group of one."""
    member = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
    return JoinGroupResponse(
        generation_id=generation_id, protocol_type="consumer", protocol_name="range", leader="m",
        member_id="m", members=[member],
    )  # fmt: skip


def echo(request):
    return SyncGroupResponse(assignment=request.assignments[0].assignment)


def refused(response_class, code):
    return lambda _: response_class(error_code=code)


def membership(cluster, **options):
    return Membership(cluster, "g", ["t"], heartbeat_interval_ms=0, **options)


def test_a_leader_shares_out(fake, scripted):
    held = membership(scripted).join()
    assert held == (TopicPartition("t", 0), TopicPartition("t", 1))
    (request,) = fake.requests[JOIN]
    assert [protocol.name for protocol in request.protocols] == ["range", "roundrobin"]


def test_the_member_id_is_given_first(fake, scripted):
    fake.answers[JOIN] = [
        lambda _: JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m"),
        joined,
    ]
    member = membership(scripted)
    member.join()
    assert [request.member_id for request in fake.requests[JOIN]] == ["", "m"]
    assert member.identity == Identity(1, "m")


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_sync_that_comes_too_late(fake, scripted, code):
    fake.answers[SYNC] = [refused(SyncGroupResponse, code), echo]
    assert len(membership(scripted).join()) == 2
    assert len(fake.requests[JOIN]) == 2


def test_a_coordinator_that_has_forgotten_the_member(fake, scripted):
    fake.answers[JOIN] = [
        joined,
        refused(JoinGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID),
        lambda request: joined(request, 2),
    ]
    member = membership(scripted)
    member.join()
    member.join()
    assert [request.member_id for request in fake.requests[JOIN]] == ["", "m", ""]
    assert member.identity.generation_id == 2


def test_a_group_that_does_not_want_the_member(fake, scripted):
    fake.answers[JOIN] = refused(JoinGroupResponse, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        membership(scripted).join()


def beat_until_answered(fake, member, count):
    """Heartbeats until the coordinator has seen `count` and the last one was answered."""
    while True:
        if member.heartbeat():
            return True
        if len(fake.requests[HEARTBEAT]) > count:
            return False


@pytest.mark.parametrize(
    ("code", "forgets"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
    ],
)
def test_heartbeats_call_back_to_join(fake, scripted, code, forgets):
    fake.answers[HEARTBEAT] = [
        lambda _: HeartbeatResponse(),
        refused(HeartbeatResponse, code),
        lambda _: HeartbeatResponse(),
    ]
    member = membership(scripted)
    member.join()
    assert beat_until_answered(fake, member, 5)
    assert (member.identity.member_id == "") == forgets


def test_heartbeats_follow_the_coordinator(fake, scripted):
    fake.answers[HEARTBEAT] = [
        refused(HeartbeatResponse, ErrorCode.NOT_COORDINATOR),
        lambda _: HeartbeatResponse(),
    ]
    member = membership(scripted)
    member.join()
    assert not beat_until_answered(fake, member, 3)
    assert member.identity.member_id == "m"


def test_heartbeats_survive_a_broken_connection(fake, scripted):
    member = membership(scripted)
    member.join()
    fake.drop_connections()
    assert not beat_until_answered(fake, member, 3)


def test_a_member_that_was_replaced(fake, scripted):
    fake.answers[HEARTBEAT] = refused(HeartbeatResponse, ErrorCode.FENCED_INSTANCE_ID)
    member = membership(scripted, instance_id="i")
    member.join()
    with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
        beat_until_answered(fake, member, 100)


def test_leaving(fake, scripted):
    member = membership(scripted)
    member.leave()
    assert not fake.requests[LEAVE]
    member.join()
    member.leave()
    (request,) = fake.requests[LEAVE]
    assert [each.member_id for each in request.members] == ["m"]
    assert member.identity == Identity()


def test_a_static_member_does_not_leave(fake, scripted):
    member = membership(scripted, instance_id="i")
    member.join()
    member.leave()
    assert not fake.requests[LEAVE]


def test_an_assignor_that_there_is_not(scripted):
    with pytest.raises(ValueError, match="'cooperative-sticky' is not an assignor"):
        membership(scripted, assignors=["cooperative-sticky"])


# -- what members write --------------------------------------------------------------------


def test_the_opaque_fields():
    keys = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
    assert group_protocol.decode_assignment(group_protocol.encode_assignment(keys)) == keys
    data = group_protocol.encode_subscription(["b", "a"], keys, 5)
    subscription = group_protocol.decode_subscription(data)
    assert subscription.topics == ["a", "b"]
    assert subscription.generation_id == 5
    assert subscription.owned == keys


SUBSCRIPTION_OF_JAVA = bytes.fromhex(
    "000300000002000161000162ffffffff000000010001610000000200000000000000010000000500027231"
)
ASSIGNMENT_OF_JAVA = bytes.fromhex(
    "0003000000020001610000000200000000000000010001620000000100000000ffffffff"
)


def test_the_opaque_fields_are_as_javas():
    owned = (TopicPartition("a", 0), TopicPartition("a", 1))
    data = group_protocol.encode_subscription(["b", "a"], owned, 5, rack="r1")
    assert data == SUBSCRIPTION_OF_JAVA
    assert group_protocol.decode_subscription(data, "i") == Member(["a", "b"], "i", "r1", owned, 5)
    assigned = (*owned, TopicPartition("b", 0))
    assert group_protocol.encode_assignment(assigned) == ASSIGNMENT_OF_JAVA
    assert group_protocol.decode_assignment(ASSIGNMENT_OF_JAVA) == assigned


def test_later_versions_are_read_as_ours():
    keys = (TopicPartition("a", 0),)
    later = b"\x00\x63" + group_protocol.encode_assignment(keys)[2:] + b"more"
    assert group_protocol.decode_assignment(later) == keys
    assert group_protocol.decode_assignment(b"") == ()


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x05"])
def test_opaque_fields_that_cannot_be_read(data):
    with pytest.raises(MalformedResponseError):
        group_protocol.decode_assignment(data)
    with pytest.raises(MalformedResponseError):
        group_protocol.decode_subscription(data)
