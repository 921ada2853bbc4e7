"""Classic groups: assignment, rebalance and commits, with a live broker."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from tests.support.waiting import until

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
from odradek.client.errors import (
    BrokerError,
    ClosedError,
    MalformedResponseError,
    UnreachableError,
)
from odradek.client.group.group_consumer import GroupConsumer
from odradek.client.offsets import EARLIEST, LATEST
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


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


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
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
        on_revoked=lambda _: revoked.append(consumer.commit()),
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


# -- the consumer between its calls ---------------------------------------------------------


def test_a_handler_that_works_longer_than_the_session_lasts(cluster, make_topic, group):
    topic = make_topic(partitions=2)
    fill(cluster, topic, 4)
    lost, revoked = [], []
    with GroupConsumer(
        cluster,
        group,
        [topic],
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        on_lost=lost.append,
        on_revoked=revoked.append,
    ) as consumer:
        read(consumer, 4)
        before = consumer.group_metadata
        time.sleep(7.5)
        assert consumer.commit()
        consumer.poll(10)
        assert consumer.group_metadata == before
        assert not lost
        assert not revoked
    assert [sorted(each) for each in revoked] == [[(topic, 0), (topic, 1)]]


def test_a_handler_that_works_longer_than_it_may(cluster, make_topic, group, caplog):
    topic = make_topic()
    fill(cluster, topic, 2)
    told = []
    with GroupConsumer(
        cluster,
        group,
        [topic],
        max_poll_interval_ms=1_500,
        on_assigned=lambda positions: told.append(("assigned", dict(positions))),
        on_revoked=lambda partitions: told.append(("revoked", list(partitions))),
        on_lost=lambda partitions: told.append(("lost", list(partitions))),
    ) as consumer:
        read(consumer, 2)
        before = consumer.group_metadata
        until(lambda: not describe_groups(cluster, [group])[group].members, "the member leaves")
        assert not consumer.commit()
        assert "max.poll.interval.ms" in caplog.text
        assert consumer.positions, "it learns of it in poll"
        assert consumer.group_metadata == before, "a transaction with its offsets is refused"
        seen = read(consumer, 2)
        key = TopicPartition(topic, 0)
        assert told == [("assigned", {key: 0}), ("lost", [key]), ("assigned", {key: 0})]
        assert len(seen) == 2, "it reads again what it could not commit"


def test_an_instance_id_that_another_takes(cluster, make_topic, group, bootstrap):
    topic = make_topic()
    lost = []
    options = {"instance_id": "i", "heartbeat_interval_ms": 200}
    with GroupConsumer(cluster, group, [topic], on_lost=lost.append, **options) as consumer:
        consumer.poll(10)
        with Cluster(bootstrap) as own, GroupConsumer(own, group, [topic], **options) as other:
            other.poll(10)
            for _ in range(2):
                with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
                    poll_until_it_fails(consumer)
            assert lost == [(TopicPartition(topic, 0),)]


def poll_until_it_fails(consumer):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        consumer.poll(50)


def test_pause_resume_and_seek(cluster, make_topic, group):
    topic = make_topic(partitions=2)
    first, second = (TopicPartition(topic, index) for index in range(2))
    with Producer(cluster) as producer:
        for key in (first, second):
            for _ in range(3):
                producer.send(topic, b"x", partition=key.partition)
    with GroupConsumer(cluster, group, [topic]) as consumer:
        read(consumer, 6)
        consumer.pause([first])
        consumer.seek({first: 1, second: 2})
        assert read(consumer, 1) == [(second, 2)]
        assert not any(consumer.poll(200).values())
        assert consumer.positions == {first: 1, second: 3}
        consumer.resume([first])
        assert read(consumer, 2) == [(first, 1), (first, 2)]
        with pytest.raises(ValueError, match="elsewhere-0 is not assigned"):
            consumer.seek({TopicPartition("elsewhere", 0): 1})
        assert consumer.commit({first: CommittedOffset(2, metadata="note")})
    assert fetch_offsets(cluster, group) == {first: CommittedOffset(2, -1, "note")}


def test_a_callback_that_raises(cluster, make_topic, group):
    topic = make_topic()
    fill(cluster, topic, 1)

    def refuse(_positions):
        raise LookupError("mine")

    with GroupConsumer(cluster, group, [topic], on_assigned=refuse) as consumer:
        with pytest.raises(LookupError, match="mine"):
            consumer.poll(10)
        assert len(read(consumer, 1)) == 1, "the partitions are assigned nevertheless"


def test_no_call_after_close(cluster, make_topic, group):
    consumer = GroupConsumer(cluster, group, [make_topic()])
    consumer.poll(10)
    consumer.close()
    consumer.close()
    for call in (lambda: consumer.poll(10), consumer.commit, lambda: consumer.seek({})):
        with pytest.raises(ClosedError, match="the consumer is closed"):
            call()


def test_a_coordinator_that_cannot_be_reached(group):
    with (
        Cluster("127.0.0.1:1", timeout_ms=300) as nowhere,
        GroupConsumer(nowhere, group, ["t"]) as consumer,
        pytest.raises(UnreachableError),
    ):
        consumer.poll(10)


def test_a_group_of_the_new_protocol(cluster, make_topic, group, bootstrap):
    topic = make_topic(partitions=4)
    fill(cluster, topic, 40)
    options = {"protocol": "consumer", "remote_assignor": "range"}
    revoked = []
    with GroupConsumer(cluster, group, [topic], on_revoked=revoked.extend, **options) as consumer:
        read(consumer, 40)
        assert consumer.commit()
        with Cluster(bootstrap) as own, GroupConsumer(own, group, [topic], **options) as other:

            def share():
                consumer.poll(20)
                other.poll(20)
                return len(consumer.positions) == len(other.positions) == 2

            until(share, "the members have two partitions each")
            assert set(revoked) == set(other.positions)
            assert sum(other.positions.values()) + sum(consumer.positions.values()) == 40
        assert consumer.group_metadata.generation_id > 0


def test_topics_by_a_pattern_of_the_broker(cluster, make_topic, group):
    topic = make_topic(partitions=2)
    fill(cluster, topic, 4)
    options = {"protocol": "consumer", "pattern": f"{topic[:-1]}."}
    with GroupConsumer(cluster, group, (), **options) as consumer:
        assert {key.topic for key, _ in read(consumer, 4)} == {topic}
    with (
        GroupConsumer(cluster, group, (), protocol="consumer", pattern="(") as consumer,
        pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"),
    ):
        consumer.poll(10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "share"}, "group.protocol is 'share'"),
        ({"pattern": "t"}, "a pattern cannot be set when group.protocol=CLASSIC"),
        ({"protocol": "consumer", "session_timeout_ms": 1}, "session.timeout.ms cannot be set"),
    ],
)
def test_settings_of_the_other_protocol(cluster, group, options, message):
    with pytest.raises(ValueError, match=message):
        GroupConsumer(cluster, group, ["t"], **options)


def test_an_assignor_that_there_is_not(cluster, group):
    with pytest.raises(ValueError, match="'fair' is not an assignor"):
        GroupConsumer(cluster, group, ["t"], assignors=["fair"])


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
