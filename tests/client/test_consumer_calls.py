"""The blocking consumer with a live broker: reading, groups, and wrong uses."""

from __future__ import annotations

import _thread
import os
import re
import socket
import threading
import time
import uuid
import warnings

import pytest
from tests.support.waiting import until

from odradek.client import Consumer, Producer
from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.errors import (
    BrokerError,
    ClientError,
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    ConsumerStateError,
    NoOffsetError,
    NoSuchTopicError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
)
from odradek.client.group_metadata import CommittedOffset

PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make(bootstrap):
    made = []

    def consumer(**settings):
        made.append(Consumer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield consumer
    for each in made:
        each.close()


def fill(bootstrap, topic, count, start=0, partition=None, **settings):
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for n in range(start, start + count):
            producer.send(topic, b"%d" % n, key=b"k%d" % n, partition=partition, timestamp=1000 + n)


def numbers(consumer, count):
    found = []
    while len(found) < count:
        batch = consumer.poll(10)
        assert batch is not None, f"only {found}"
        found += [int(each) for each in batch.values()]
    return found


# -- without a group -----------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_what_a_batch_has(bootstrap, make_topic, make, codec):
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=500) as producer:
        producer.send(topic, b"a", key=b"k", headers=[("h", b"x"), ("n", None)], timestamp=5)
        producer.send(topic, None, timestamp=6)
        producer.send(topic, b"x" * 1000, key=b"", timestamp=7)
    consumer = make()
    consumer.assign([(topic, 0, 0)])
    records = []
    while len(records) < 3:
        batch = consumer.poll(10)
        records += batch
        assert batch.values() == [each.value for each in batch]
        assert batch.keys() == [each.key for each in batch]
        assert batch.offsets() == [each.offset for each in batch]
        assert batch.timestamps() == [each.timestamp for each in batch]
        assert len(batch) == len(batch.records())
        assert (batch.topic, batch.partition, batch.leader_epoch) == (topic, 0, 0)
    tables = [each.batch.to_arrow(headers=True).to_pydict() for each in records]
    columns = tables[0]
    assert (columns["key"][0], columns["value"][0], columns["offset"][0]) == (b"k", b"a", 0)
    assert columns["headers"][0] == [{"key": "h", "value": b"x"}, {"key": "n", "value": None}]
    assert {name for each in tables for name in each["topic"]} == {topic}
    first, second, third = records
    assert first.headers == (("h", b"x"), ("n", None))
    assert (first.key, first.value, first.offset, first.timestamp) == (b"k", b"a", 0, 5)
    assert (first.topic, first.partition, first.timestamp_type) == (topic, 0, 0)
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert (third.key, third.value) == (b"", b"x" * 1000)


def test_deserializers(bootstrap, make_topic, make):
    topic = make_topic()
    fill(bootstrap, topic, 2)
    consumer = make(key_deserializer=bytes.decode, value_deserializer=int)
    consumer.assign([(topic, 0, 0)])
    found = []
    while len(found) < 2:
        batch = consumer.poll(10)
        found += [(each.key, each.value) for each in batch]
        assert list(zip(batch.keys(), batch.values(), strict=True)) == found[-len(batch) :]
    assert found == [("k0", 0), ("k1", 1)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"no number")
    for _ in range(2):
        with pytest.raises(ValueError, match="no number") as caught:
            next(iter(consumer))
        assert "offset 2" in caught.value.__notes__[0]
        assert consumer.position((topic, 0)) == 2
    with pytest.raises(TypeError, match="deserializer"):
        make(value_deserializer=5)


def test_positions(bootstrap, make_topic, make):
    topic = make_topic(partitions=2)
    fill(bootstrap, topic, 50, partition=0)
    fill(bootstrap, topic, 10, partition=1)
    consumer = make(auto_offset_reset="earliest")
    first, second = (topic, 0), (topic, 1)
    consumer.assign([(topic, 0, 40), second])
    assert consumer.assignment == {first, second}
    assert consumer.position(second) == 0
    assert sorted(numbers(consumer, 20)) == sorted([*range(40, 50), *range(10)])
    assert consumer.positions == {first: 50, second: 10}
    assert consumer.lag(first) == 0
    consumer.pause(first)
    consumer.seek(first, 45)
    assert consumer.poll(0.3) is None
    assert consumer.paused == {first}
    consumer.resume([first])
    assert numbers(consumer, 5) == [45, 46, 47, 48, 49]
    consumer.seek_to_beginning(second)
    assert numbers(consumer, 10) == list(range(10))
    consumer.seek_to_end()
    assert (consumer.position(first), consumer.position(second)) == (50, 10)
    assert consumer.beginning_offsets(first, second) == {first: 0, second: 0}
    assert consumer.end_offsets([first]) == {first: 50}
    times = consumer.offsets_for_times({first: 1042, second: 5000})
    assert times[first][:2] == (42, 1042)
    assert times[second] is None
    consumer.assign([second])
    assert consumer.assignment == {second}
    with pytest.raises(ConsumerStateError, match="not assigned"):
        consumer.seek(first, 0)


def test_without_a_policy_there_must_be_an_offset(bootstrap, make_topic, make):
    topic = make_topic()
    fill(bootstrap, topic, 5)
    consumer = make(auto_offset_reset="none")
    consumer.assign([(topic, 0)])
    with pytest.raises(NoOffsetError, match=r"auto\.offset\.reset is none"):
        consumer.poll(5)
    consumer.seek((topic, 0), 99)
    with pytest.raises(OffsetOutOfRangeError, match="99"):
        consumer.poll(5)
    consumer.seek((topic, 0), 3)
    assert numbers(consumer, 2) == [3, 4]


def test_out_of_range_with_a_policy(bootstrap, make_topic, make):
    topic = make_topic()
    fill(bootstrap, topic, 5)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([(topic, 0, 99)])
    assert numbers(consumer, 5) == list(range(5))


def test_only_committed_records(bootstrap, make_topic, make):
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"1")
        producer.begin_transaction()
        producer.send(topic, b"2").wait()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"3")
    consumer = make(isolation_level="read_committed")
    consumer.assign([(topic, 0, 0)])
    assert numbers(consumer, 2) == [1, 3]


def test_a_topic_that_is_missing_deleted_and_made_again(bootstrap, cluster, make):
    topic = f"again-{uuid.uuid4().hex[:8]}"
    consumer = make(auto_offset_reset="latest", allow_auto_create_topics=False)
    consumer.assign([(topic, 0)])
    with pytest.raises(NoSuchTopicError, match=topic):
        next(consumer.batches(timeout=20))
    create_topics(cluster, [NewTopic(topic, 1)])
    try:
        consumer.seek_to_beginning()
        fill(bootstrap, topic, 3)
        assert numbers(consumer, 3) == [0, 1, 2]
        delete_topics(cluster, [topic])
        create_topics(cluster, [NewTopic(topic, 1)])
        fill(bootstrap, topic, 5, start=10)
        assert numbers(consumer, 5) == [10, 11, 12, 13, 14]
    finally:
        delete_topics(cluster, [topic])


# -- wrong uses ----------------------------------------------------------------------------


def test_a_wrong_address(make):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}") as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(ClientError, match=str(port)):
            consumer.poll(20)
        with pytest.raises(ClientError, match=str(port)):
            consumer.end_offsets(("t", 0))
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", group_id="g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(ClientError, match=str(port)):
            consumer.poll(20)


def test_two_threads_on_one_consumer(make_topic, make):
    consumer = make()
    consumer.assign([(make_topic(), 0)])
    polling = threading.Thread(target=consumer.poll, args=(2,))
    polling.start()
    until(lambda: consumer._use._lock.acquire(blocking=False) is False)
    with pytest.raises(ConcurrentUseError, match="another thread"):
        consumer.poll()
    with pytest.raises(ConcurrentUseError):
        consumer.close()
    polling.join()
    assert consumer.poll() is None


def test_a_call_after_close(make_topic, make):
    consumer = make(group_id="g")
    consumer.assign([(make_topic(), 0)])
    consumer.close()
    consumer.close()
    calls = (consumer.poll, consumer.commit, consumer.seek_to_end, consumer.unsubscribe,
             lambda: consumer.subscribe(["t"]), lambda: next(iter(consumer)),
             lambda: next(consumer.batches()))  # fmt: skip
    for call in calls:
        with pytest.raises(ClosedError, match="closed"):
            call()


def test_ctrl_c_ends_a_poll_and_loses_nothing(bootstrap, make_topic, make):
    topic = make_topic()
    fill(bootstrap, topic, 3)
    consumer = make()
    consumer.assign([(topic, 0, 0)])
    assert numbers(consumer, 3) == [0, 1, 2]
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(30)
    timer.join()
    fill(bootstrap, topic, 3, start=3)
    assert numbers(consumer, 3) == [3, 4, 5]


def test_a_fork(make_topic, make):
    consumer = make()
    consumer.assign([(make_topic(), 0)])
    consumer.poll()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            consumer.poll()
        except ClosedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert consumer.poll() is None


def test_what_belongs_to_groups_and_what_does_not(make_topic, make):
    topic = make_topic()
    plain = make()
    for call in (lambda: plain.subscribe([topic]), plain.commit, lambda: plain.group_metadata):
        with pytest.raises(ConsumerStateError, match="without a group"):
            call()
    member = make(group_id="g")
    member.subscribe([topic])
    with pytest.raises(ConsumerStateError, match="subscribed"):
        member.assign([(topic, 0)])
    member.unsubscribe()
    member.assign([(topic, 0)])
    with pytest.raises(ConsumerStateError, match="assigned by assign"):
        member.subscribe([topic])
    with pytest.raises(ValueError, match=r"re\.Pattern"):
        make(group_id="g").subscribe(pattern="^t")


# -- groups --------------------------------------------------------------------------------


@pytest.mark.slow("members of a group wait for one another")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_a_topic_and_go_on_where_others_left_off(
    bootstrap, make_topic, make, group, protocol
):
    topic = make_topic(partitions=2)
    fill(bootstrap, topic, 40)
    settings = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    told = []
    first = make(**settings)
    first.subscribe(
        [topic],
        on_assigned=lambda some: told.append(("assigned", sorted(some))),
        on_revoked=lambda some: told.append(("revoked", sorted(some))),
    )
    assert first.assignment == frozenset()
    assert sorted(numbers(first, 40)) == list(range(40))
    assert told == [("assigned", [(topic, 0), (topic, 1)])]
    second = make(**settings)
    second.subscribe([topic])

    def is_shared():
        first.poll(0.05)
        second.poll(0.05)
        return len(first.assignment) == len(second.assignment) == 1

    until(is_shared)
    assert told[1][0] == "revoked"
    assert first.group_metadata.member_id
    first.close()  # commits
    fill(bootstrap, topic, 20, start=40)
    assert sorted(numbers(second, 20)) == list(range(40, 60))
    assert len(second.assignment) == 2


def test_records_count_as_read_when_the_next_is_asked_for(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 10)
    settings = {"group_id": group, "auto_offset_reset": "earliest"}
    with make(**settings) as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            if record.offset == 3:
                assert consumer.position((topic, 0)) == 4
                consumer.commit(record)
                break
        assert consumer.committed((topic, 0))[topic, 0].offset == 4
        assert next(iter(consumer)).offset == 4, "iteration goes on"
        consumer.seek((topic, 0), 8)
        assert next(iter(consumer)).offset == 8
        assert consumer.positions == {(topic, 0): 9}
    with make(**settings, enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        assert next(iter(consumer)).offset == 9, "close has committed"


def test_commits(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 10)
    consumer = make(group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([(topic, 0)])
    key = (topic, 0)
    assert consumer.committed(key) == {}
    numbers(consumer, 10)
    consumer.commit()
    assert consumer.committed([key])[key] == CommittedOffset(10, 0)
    consumer.commit({key: CommittedOffset(4, -1, "note")})
    assert consumer.committed(key)[key] == CommittedOffset(4, -1, "note")
    outcomes = []
    consumer.commit_async({key: 5}, outcomes.append)
    until(lambda: consumer.poll(0.05) is not None or outcomes)
    assert outcomes == [None]
    consumer.close()
    other = make(group_id=group, enable_auto_commit=False)
    other.assign([key])
    assert other.position(key) == 5


def test_automatic_commits(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 10)
    consumer = make(group_id=group, auto_commit_interval_ms=100, auto_offset_reset="earliest")
    consumer.subscribe(topic)
    numbers(consumer, 10)
    other = make(group_id=group)
    wanted = {(topic, 0): CommittedOffset(10, 0)}
    until(lambda: consumer.poll(0.1) is None and other.committed((topic, 0)) == wanted)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_does_not_poll_leaves_and_comes_back(
    bootstrap, make_topic, make, group, protocol, caplog
):
    topic = make_topic()
    fill(bootstrap, topic, 3)
    lost = []
    consumer = make(
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        max_poll_interval_ms=1000,
        enable_auto_commit=False,
    )
    consumer.subscribe(topic, on_lost=lost.append)
    assert numbers(consumer, 3) == [0, 1, 2]
    member = consumer._machine.member
    until(lambda: member.loss)
    with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
        consumer.commit()
    assert numbers(consumer, 3) == [0, 1, 2]
    assert lost == [[(topic, 0)]]
    assert "max.poll.interval.ms" in caplog.text


def test_a_member_that_works_long_keeps_its_place(bootstrap, make_topic, make, group):
    """Longer than the session timeout, in the middle of a batch and between polls."""
    topic = make_topic()
    fill(bootstrap, topic, 4)
    consumer = make(
        group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=1000,
        auto_offset_reset="earliest",
    )  # fmt: skip
    lost = []
    consumer.subscribe(topic, on_revoked=lost.append)
    record = next(iter(consumer))
    time.sleep(7)
    consumer.commit(record)
    assert next(iter(consumer)).offset == 1
    assert lost == []


def test_an_instance_id_that_another_takes(make_topic, make, group):
    topic = make_topic()
    lost = []
    options = {"group_id": group, "group_instance_id": "i", "heartbeat_interval_ms": 200}
    consumer, other = make(**options), make(**options)
    consumer.subscribe(topic, on_lost=lost.extend)
    until(lambda: consumer.poll(0.1) is None and consumer.assignment)
    other.subscribe(topic)
    until(lambda: other.poll(0.1) is None and other.assignment)
    for _ in range(2):
        with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
            poll_until_it_fails(consumer)
    assert lost == [(topic, 0)]


def poll_until_it_fails(consumer):
    for _ in range(1_000):
        consumer.poll(0.05)


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_nothing_is_lost_or_doubled_when_members_come(bootstrap, make_topic, make, group, assignor):
    topic = make_topic(partitions=4)
    fill(bootstrap, topic, 300)
    settings = {
        "group_id": group, "partition_assignment_strategy": assignor, "max_poll_records": 20,
        "auto_offset_reset": "earliest",
    }  # fmt: skip
    first, second = make(**settings), make(**settings)
    found = []
    first.subscribe(topic)
    while len(found) < 100:
        batch = first.poll(5)
        found += [] if batch is None else batch.values()
    second.subscribe(topic)
    deadline = time.monotonic() + 60
    while len(found) < 300 or len(second.assignment) != 2:
        assert time.monotonic() < deadline, (len(found), second.assignment)
        for each in (first, second):
            batch = each.poll(0.05)
            found += [] if batch is None else batch.values()
    assert sorted(map(int, found)) == list(range(300))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subscriptions_change(bootstrap, make_topic, make, group, protocol):
    one, two = make_topic(), make_topic()
    fill(bootstrap, one, 2)
    fill(bootstrap, two, 2, start=10)
    consumer = make(group_id=group, group_protocol=protocol, auto_offset_reset="earliest")
    consumer.subscribe([one])
    assert numbers(consumer, 2) == [0, 1]
    consumer.subscribe([two])
    assert numbers(consumer, 2) == [10, 11]
    until(lambda: consumer.poll(0.1) is None and consumer.assignment == {(two, 0)})
    assert consumer.subscription == {two}
    consumer.unsubscribe()
    assert (consumer.subscription, consumer.assignment) == (set(), set())
    assert consumer.poll(0.1) is None
    consumer.subscribe(re.compile(f"{one}|{two}"))
    consumer.poll(0.1)
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment) == 2)
    assert consumer.subscription == {one, two}


def test_a_pattern_of_the_broker(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 2)
    consumer = make(group_id=group, group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe(pattern=f"{topic[:-1]}.")
    assert numbers(consumer, 2) == [0, 1]
    refused = make(group_id=f"{group}-2", group_protocol="consumer")
    refused.subscribe(pattern="(")
    with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"):
        poll_until_it_fails(refused)


def test_a_callback_that_raises(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 2)

    def fail(_):
        raise ZeroDivisionError

    consumer = make(group_id=group, auto_offset_reset="earliest")
    consumer.subscribe(topic, on_assigned=fail)
    with pytest.raises(ZeroDivisionError):
        next(consumer.batches(timeout=20))
    assert numbers(consumer, 2) == [0, 1]


def test_callbacks_may_seek_and_commit(bootstrap, make_topic, make, group):
    topic = make_topic()
    fill(bootstrap, topic, 5)
    with make(group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe(
            topic,
            on_assigned=lambda some: consumer.seek(some[0], 2),
            on_revoked=lambda some: consumer.commit(),
        )
        assert numbers(consumer, 3) == [2, 3, 4]
    other = make(group_id=group)
    assert other.committed((topic, 0))[topic, 0].offset == 5


def test_offsets_are_a_part_of_a_transaction(bootstrap, make_topic, make, group):
    source, sink = make_topic(), make_topic()
    fill(bootstrap, source, 6)
    consumer = make(group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
                    isolation_level="read_committed")  # fmt: skip
    consumer.subscribe(source)
    with Producer(bootstrap_servers=bootstrap, transactional_id=group) as producer:
        count = 0
        for batch in consumer.batches():
            with producer.transaction(consumer):
                for record in batch:
                    producer.send(sink, record.value)
                    count += 1
            if count == 6:
                break
    assert consumer.committed((source, 0))[source, 0] == CommittedOffset(6, 0)
    reader = make(isolation_level="read_committed")
    reader.assign([(sink, 0, 0)])
    assert numbers(reader, 6) == list(range(6))


def test_poll_returns_in_its_time(bootstrap, make_topic, make, group):
    """Also while the coordinator waits for a member that does not join."""
    topic = make_topic()
    idle = make(group_id=group, enable_auto_commit=False)
    idle.subscribe(topic)
    until(lambda: idle.poll(0.1) is None and idle.assignment)
    consumer = make(group_id=group, enable_auto_commit=False)
    consumer.subscribe(topic)
    began = time.monotonic()
    assert consumer.poll(0.5) is None
    assert time.monotonic() - began < 20, "it waited for the other member"
    with pytest.raises((RequestTimeoutError, ConsumerStateError)):
        consumer.position((topic, 0), timeout=0.2)
