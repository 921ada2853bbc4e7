"""A share consumer with a real node, over sockets."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time

import pytest

from odradek.client import aio
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.groups import list_groups
from odradek.client.admin.share_groups import (
    ShareGroup,
    StartOffset,
    alter_start_offsets,
    delete_start_offsets,
    describe_share_groups,
    describe_start_offsets,
)
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import BrokerError, ClosedError, DisconnectedError
from odradek.client.producer import Producer
from odradek.client.share import consumer as share_consumer
from odradek.client.share import direct_calls
from odradek.client.share.consumer import (
    AcknowledgeType,
    NotAcknowledgedError,
    ShareConsumer,
    ShareLimits,
)
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
QUICK = ShareLimits(wait_ms_max=50)


@pytest.fixture(scope="module")
def node():
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def cluster(node):
    with Cluster(node.bootstrap_servers, timeout_ms=10_000) as cluster:
        yield cluster


@pytest.fixture
def queue(cluster, request):
    """A topic with one partition, and a group with its name, which begins at the topic's start."""
    name = request.node.name.removeprefix("test_")
    return new_queue(cluster, name.replace("[", "-").replace("]", ""))


def new_queue(cluster, name, partitions=1):
    made = create_topics(cluster, [NewTopic(name, partitions)])
    assert not isinstance(made[name], Exception)
    configure(cluster, name, share_auto_offset_reset="earliest")
    return name


def configure(cluster, group, **settings):
    changes = [Change(key.replace("_", "."), value) for key, value in settings.items()]
    results = alter_configs(cluster, {Resource(ResourceType.GROUP, group): changes})
    assert list(results.values()) == [None]


def fill(cluster, topic, *values, partition=0):
    with Producer(cluster) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, headers=[("n", b"1")])


class InLoop:
    """The consumer of asyncio in an event loop of its own, with the calls of the blocking one."""

    def __init__(self, cluster, queue, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        bootstrap = ",".join(map(str, cluster.bootstrap))
        settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": cluster.timeout_ms}
        self._consumer = aio.ShareConsumer(settings, queue, [queue], limits=QUICK, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def end(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __getattr__(self, name):
        found = getattr(self._consumer, name)
        if not callable(found):
            return found

        async def call(*arguments, **keywords):
            result = found(*arguments, **keywords)
            return await result if inspect.isawaitable(result) else result

        return lambda *arguments, **keywords: self._run(call(*arguments, **keywords))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def keep_alive(self):
        self.commit()

    def __iter__(self):
        records = aiter(self._consumer)
        try:
            while True:
                yield self._run(anext(records))
        except StopAsyncIteration:
            return
        finally:
            self._run(records.aclose())


def member(cluster, queue, **options):
    return ShareConsumer(cluster, queue, [queue], limits=QUICK, **options)


@pytest.fixture(params=["blocking", "asyncio"])
def either(request):
    """Make members with one of the shells."""
    made = []

    def make(cluster, queue, **options):
        made.append(InLoop(cluster, queue, **options))
        return made[-1]

    yield member if request.param == "blocking" else make
    for each in made:
        each.end()


def polled(consumer, count):
    """Poll until there are `count` records. In the mode explicit, one poll must return them."""
    records = []
    while len(records) < count:
        records += consumer.poll(10_000)
    return records


def test_accept_release_and_reject(cluster, queue, either):
    fill(cluster, queue, b"0", b"1", b"2")
    results = []
    with either(cluster, queue, on_acknowledged=results.extend) as consumer:
        first = polled(consumer, 3)
        assert [(r.value, r.delivery_count, r.headers) for r in first] == [
            (b"0", 1, (("n", b"1"),)),
            (b"1", 1, (("n", b"1"),)),
            (b"2", 1, (("n", b"1"),)),
        ]
        assert consumer.acquisition_lock_timeout_ms == 30_000
        assert 0 < consumer.lock_remaining_ms(first[0]) <= 30_000
        consumer.accept(first[0])
        consumer.release(first[1])
        consumer.reject(first[2])
        (again,) = polled(consumer, 1)
        assert (again.value, again.delivery_count) == (b"1", 2)
        consumer.accept(again)
        (result,) = consumer.commit()
        assert (result.types, result.error) == ({1: AcknowledgeType.ACCEPT}, None)
        assert consumer.poll(100) == []
    assert [each.error for each in results] == [None, None]


def test_iteration(cluster, either):
    queue = new_queue(cluster, f"iteration-{either.__name__}", partitions=2)
    for partition in (0, 1):
        fill(cluster, queue, *(b"%d" % n for n in range(10)), partition=partition)
    seen = []
    with either(cluster, queue) as consumer:
        for record in consumer:
            seen.append((record.partition, record.offset))
            consumer.accept(record)
            if len(seen) == 20:
                break
    assert sorted(seen) == [(partition, n) for partition in (0, 1) for n in range(10)]
    with either(cluster, queue) as consumer:
        assert consumer.poll(300) == [], "close has sent the acknowledgements"


def test_records_are_demanded_to_be_acknowledged(cluster, queue, either):
    fill(cluster, queue, b"0")
    with either(cluster, queue) as consumer:
        (record,) = polled(consumer, 1)
        with pytest.raises(NotAcknowledgedError):
            consumer.poll(0)
        consumer.accept(record)
        with pytest.raises(ValueError, match="does not wait"):
            consumer.accept(record)
    with pytest.raises((ValueError, ClosedError), match="closed"):
        consumer.poll(0)


def test_implicit_mode(cluster, queue, either):
    fill(cluster, queue, b"0", b"1")
    with either(cluster, queue, mode="implicit") as consumer:
        records = polled(consumer, 2)
        with pytest.raises(ValueError, match="explicit"):
            consumer.accept(records[0])
        assert consumer.poll(100) == []
        fill(cluster, queue, b"2", b"3")
        for record in consumer:
            if record.value == b"3":
                break
    with either(cluster, queue, mode="implicit") as consumer:
        assert [(r.value, r.delivery_count) for r in polled(consumer, 1)] == [(b"3", 2)], (
            "close releases the record that was not processed"
        )
        assert [each.error for each in consumer.commit()] == [None]
    with either(cluster, queue) as consumer:
        assert consumer.poll(300) == []


def test_members_share_the_records(cluster, queue, node, either):
    with (
        Cluster(node.bootstrap_servers) as other_cluster,
        either(cluster, queue) as one,
        either(other_cluster, queue) as two,
    ):
        fill(cluster, queue, b"0", b"1")
        first = polled(one, 2)
        assert two.poll(300) == [], "they are locked"
        fill(cluster, queue, b"2")
        (third,) = polled(two, 1)
        two.accept(third)
        one.accept(first[0])
        one.close()
        assert [(r.offset, r.delivery_count) for r in polled(two, 1)] == [(1, 2)]


def test_a_lock_times_out(cluster, queue, node, either):
    configure(cluster, queue, share_record_lock_duration_ms="1000")
    fill(cluster, queue, b"0")
    with (
        Cluster(node.bootstrap_servers) as other_cluster,
        either(cluster, queue) as slow,
        either(other_cluster, queue) as other,
    ):
        (lost,) = polled(slow, 1)
        (taken,) = polled(other, 1)
        assert (taken.offset, taken.delivery_count) == (0, 2)
        assert slow.lock_remaining_ms(lost) == 0
        slow.accept(lost)
        (result,) = slow.commit()
        assert isinstance(result.error, BrokerError)
        assert result.error.code is ErrorCode.INVALID_RECORD_STATE
        with pytest.raises(ValueError, match="does not wait"):
            slow.renew(lost)


def test_a_lock_is_renewed(cluster, queue, monkeypatch):
    fill(cluster, queue, b"0")
    with member(cluster, queue) as consumer:
        (record,) = polled(consumer, 1)
        for module in (direct_calls, share_consumer):
            monkeypatch.setattr(module, "monotonic_ms", lambda: monotonic_ms() + 20_000)
        assert consumer.lock_remaining_ms(record) <= 10_000
        consumer.renew(record)
        assert consumer.lock_remaining_ms(record) > 10_000
        consumer.accept(record)
        assert consumer.commit()[0].error is None


def test_locks_are_kept(cluster, queue, either):
    configure(cluster, queue, share_record_lock_duration_ms="1000")
    fill(cluster, queue, b"0")
    results = []

    def is_renewed():
        return any(AcknowledgeType.RENEW in r.types.values() and r.error is None for r in results)

    with either(cluster, queue, renews=True, on_acknowledged=results.extend) as consumer:
        while not is_renewed():
            (record,) = polled(consumer, 1)
            while consumer.lock_remaining_ms(record) and not is_renewed():
                time.sleep(0.02)
                consumer.keep_alive()
            consumer.release(record)
        (record,) = polled(consumer, 1)
        consumer.accept(record)
        assert consumer.commit()[-1].types == {0: AcknowledgeType.ACCEPT}


def test_a_permanent_error_that_the_thread_meets_is_raised_by_the_next_poll(cluster, queue, node):
    configure(cluster, queue, share_record_lock_duration_ms="1000")
    fill(cluster, queue, b"0")
    with member(cluster, queue, renews=True) as consumer:
        (record,) = polled(consumer, 1)
        node.inject("ShareGroupHeartbeat", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        while consumer._keeper._error is None:
            time.sleep(0.02)
        consumer.accept(record)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.poll(0)
        consumer.poll(0)


def test_on_acknowledged_may_close_the_consumer(cluster, queue):
    """While it runs, the thread that keeps the locks can go on, so that `close` can end it."""
    fill(cluster, queue, b"0")
    seen = []

    def on_acknowledged(results):
        seen.extend(results)
        keeping = threading.Thread(target=consumer.keep_locks, daemon=True)
        keeping.start()
        keeping.join(30)
        seen.append(keeping.is_alive())
        assert consumer.close() == []

    consumer = member(cluster, queue, renews=True, mode="implicit", on_acknowledged=on_acknowledged)
    with consumer:
        assert [record.value for record in consumer] == [b"0"]
    assert seen[0].types == {0: AcknowledgeType.ACCEPT}
    assert seen[1:] == [False]


def test_the_thread_of_a_consumer_that_nobody_has_closed_ends(cluster, queue):
    configure(cluster, queue, share_record_lock_duration_ms="1000")
    fill(cluster, queue, b"0")
    consumer = member(cluster, queue, renews=True)
    polled(consumer, 1)
    thread, connections = consumer._keeper._thread, consumer._cluster
    del consumer
    while thread.is_alive():
        gc.collect()
        time.sleep(0.01)
    connections.close()


def test_the_delivery_limit(cluster, queue, either):
    configure(cluster, queue, share_delivery_count_limit="2")
    fill(cluster, queue, b"0")
    with either(cluster, queue) as consumer:
        for count in (1, 2):
            (record,) = polled(consumer, 1)
            assert record.delivery_count == count
            consumer.release(record)
        fill(cluster, queue, b"1")
        (record,) = polled(consumer, 1)
        assert (record.value, record.delivery_count) == (b"1", 1)
        consumer.accept(record)


def test_a_lost_connection_releases_the_records(cluster, queue, node, either):
    fill(cluster, queue, b"0")
    with either(cluster, queue) as consumer:
        (record,) = polled(consumer, 1)
        node.disconnect_all()
        consumer.accept(record)
        results = consumer.commit()
        assert [type(each.error) for each in results] == [DisconnectedError]
        (again,) = polled(consumer, 1)
        assert (again.offset, again.delivery_count) == (0, 2)
        consumer.accept(again)
        assert consumer.commit()[0].error is None


def test_errors_that_pass_are_survived(cluster, queue, node, either):
    with either(cluster, queue) as consumer:
        fill(cluster, queue, b"0")
        (record,) = polled(consumer, 1)
        consumer.accept(record)
        for api, error in (
            ("ShareFetch", ErrorCode.SHARE_SESSION_NOT_FOUND),
            ("ShareFetch", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
            ("ShareGroupHeartbeat", ErrorCode.UNKNOWN_MEMBER_ID),
            ("ShareGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH),
            ("ShareGroupHeartbeat", ErrorCode.NOT_COORDINATOR),
        ):
            node.inject(api, error)
            before = node.requests(api)
            while node.requests(api) < before + 2:
                assert consumer.poll(200) == []
            node.heal()
            fill(cluster, queue, b"1")
            (record,) = polled(consumer, 1)
            consumer.accept(record)
        assert [each.error for each in consumer.commit()] == [None]


def test_a_missing_right_is_told(cluster, queue, node, either):
    with either(cluster, queue) as consumer:
        node.inject("ShareGroupHeartbeat", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.poll(5_000)
        node.heal()


def test_close_after_an_interrupt_releases_the_records(cluster, queue, monkeypatch):
    """The exception comes after the machine has made a request, and before the request is sent."""
    fill(cluster, queue, b"0")

    def interrupt(*_):
        raise KeyboardInterrupt

    with member(cluster, queue) as consumer:
        (record,) = polled(consumer, 1)
        consumer.release(record)
        with monkeypatch.context() as patch:
            patch.setattr(consumer, "_send_to", interrupt)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(100)
    with member(cluster, queue) as consumer:
        (again,) = polled(consumer, 1)
        assert (again.offset, again.delivery_count) == (0, 2)
        consumer.accept(again)


def test_close_leaves_the_group(cluster, queue, either):
    with either(cluster, queue) as consumer:
        consumer.poll(300)
        assert [each.state for each in list_groups(cluster) if each.id == queue] == ["Stable"]
    assert [each.state for each in list_groups(cluster) if each.id == queue] == ["Empty"]


def test_a_restart_of_the_node(either):
    with Broker(settings=SETTINGS) as node, Cluster(node.bootstrap_servers) as cluster:
        new_queue(cluster, "jobs")
        fill(cluster, "jobs", b"0", b"1")
        with either(cluster, "jobs") as consumer:
            done, lost = polled(consumer, 2)
            consumer.accept(done)
            assert consumer.commit()[0].error is None
            node.kill()
            node.start()
            consumer.accept(lost)
            assert [type(each.error) for each in consumer.commit()] == [DisconnectedError]
            (again,) = polled(consumer, 1)
            assert (again.offset, again.value) == (1, b"1")
            consumer.accept(again)
            assert consumer.commit()[0].error is None


def test_a_reset_takes_effect_when_the_consumers_are_gone(node, queue, cluster):
    fill(cluster, queue, b"0", b"1")
    with (
        Cluster(node.bootstrap_servers) as own,
        member(own, queue) as consumer,
    ):
        for record in polled(consumer, 2):
            consumer.accept(record)
    start = describe_start_offsets(cluster, queue)[TopicPartition(queue, 0)]
    assert isinstance(start, StartOffset)
    assert start.lag == 0
    first = {TopicPartition(queue, 0): 1}
    assert alter_start_offsets(cluster, queue, first) == {TopicPartition(queue, 0): None}
    with member(cluster, queue) as consumer:
        (record,) = polled(consumer, 1)
        assert (record.value, record.delivery_count) == (b"1", 1)
        described = describe_share_groups(cluster, [queue])[queue]
        assert isinstance(described, ShareGroup)
        assert described.topics == (queue,)
        assert [each.id for each in described.group.members] == [consumer.member_id]
        consumer.accept(record)
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            alter_start_offsets(cluster, queue, first)
    assert delete_start_offsets(cluster, queue, [queue]) == {queue: None}
    assert describe_start_offsets(cluster, queue) == {}


def test_the_former_name_of_the_module_still_works() -> None:
    from odradek.client import share_consumer as former
    from odradek.client.share.consumer import ShareConsumer

    assert former.ShareConsumer is ShareConsumer
