"""Classic groups: assignment, rebalance and commits, with a live broker."""

from __future__ import annotations

import uuid

import pytest

from odradek.client import Consumer
from odradek.client.admin.groups import delete_groups, describe_groups, list_groups
from odradek.client.commits import (
    CommittedOffset,
    Identity,
    commit_offsets,
    delete_offsets,
    fetch_offsets,
)
from odradek.client.core import group_protocol
from odradek.client.core.assignors import Member
from odradek.client.errors import (
    BrokerError,
    MalformedResponseError,
)
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:12]}"


# -- against a live broker -----------------------------------------------------------------


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
    with Consumer(cluster, group_id=group) as consumer:
        consumer.subscribe(topic)
        while not consumer.assignment:
            consumer.poll(1)
        error = delete_groups(cluster, [group])[group]
        assert isinstance(error, BrokerError)
        assert error.code == ErrorCode.NON_EMPTY_GROUP
        (error,) = commit_offsets(cluster, group, {key: CommittedOffset(1)}).values()
        assert isinstance(error, BrokerError)
        stale = Identity(99, "someone-else")
        (error,) = commit_offsets(cluster, group, {key: CommittedOffset(1)}, stale).values()
        assert isinstance(error, BrokerError)


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
