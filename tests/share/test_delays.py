"""Delays, back-off and time to live of a running broker, with the Python share consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.client.test_share_consumer import QUICK, SETTINGS, configure, new_queue

from odradek.client.admin.configs import Change, Operation, Resource, alter_configs
from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.admin.share_groups import StartOffset, describe_start_offsets
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.producer import Producer
from odradek.client.share.consumer import ShareConsumer, ShareLimits, ShareRecord
from odradek.core.share.dead_letters import Cause
from odradek.core.share.schedule import HEADER
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as started:
        yield started


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, timeout_ms=10_000) as connected:
        yield connected


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def queue(cluster: Cluster, name: str, **settings: str) -> str:
    """Create a topic, and a group with its name and these settings."""
    new_queue(cluster, name)
    if settings:
        configure(cluster, name, **settings)
    return name


def send(
    cluster: Cluster, topic: str, *records: tuple[bytes, int | None], codec: Codec = Codec.NONE
) -> None:
    """Write records in one batch: values, and when they may be delivered."""
    with Producer(cluster, compression_type=codec.name.lower(), linger_ms=1_000) as producer:
        for value, due_ms in records:
            headers = [] if due_ms is None else [(HEADER, b"%d" % due_ms)]
            producer.send(topic, value, partition=0, headers=headers)


def taken(consumer: ShareConsumer, count: int) -> list[tuple[ShareRecord, int]]:
    """Return records in the order in which they arrive, and when they did. Accept them."""
    found: list[tuple[ShareRecord, int]] = []
    while len(found) < count:
        for record in consumer.poll(10_000):
            found.append((record, now_ms()))
            consumer.accept(record)
    return found


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_arrive_when_they_are_due(cluster: Cluster, codec: Codec) -> None:
    name = queue(cluster, f"due-{codec.name}", odradek_share_delay_enable="true")
    begin_ms = now_ms()
    send(
        cluster, name,
        (b"late", begin_ms + 900), (b"now", None), (b"soon", begin_ms + 600), (b"past", 1),
        codec=codec,
    )  # fmt: skip
    with ShareConsumer(cluster, name, [name], limits=QUICK) as consumer:
        found = taken(consumer, 4)
    times = {record.value: at_ms for record, at_ms in found}
    assert set(times) == {b"now", b"past", b"soon", b"late"}
    assert times[b"soon"] >= begin_ms + 600
    assert times[b"late"] >= begin_ms + 900
    assert {record.delivery_count for record, _ in found} == {1}


def test_without_the_setting_the_header_has_no_meaning(cluster: Cluster) -> None:
    name = queue(cluster, "plain-header")
    send(cluster, name, (b"later", now_ms() + 3_600_000))
    with ShareConsumer(cluster, name, [name], limits=QUICK) as consumer:
        assert [record.value for record, _ in taken(consumer, 1)] == [b"later"]


def test_ordinary_consumers_read_delayed_records_at_once(cluster: Cluster) -> None:
    name = queue(cluster, "ordinary", odradek_share_delay_enable="true")
    send(cluster, name, (b"later", now_ms() + 3_600_000))
    assert values(cluster, name, 1) == [b"later"]


def values(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        batches = read_to_ends(cluster, {TopicPartition(topic, 0): 0})
        found = [each for batch in batches for each in batch.values()]
    return found


def test_what_waits_survives_a_restart(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        name = queue(cluster, "restarted", odradek_share_delay_enable="true")
        due_ms = now_ms() + 1_500
        send(cluster, name, *((b"%d" % n, due_ms if n % 2 else None) for n in range(400)))
        one = ShareLimits(wait_ms_max=50, records_max=50)
        with ShareConsumer(cluster, name, [name], limits=one) as consumer:
            first = taken(consumer, 200)
            consumer.commit()
        early = {int(record.value or b"") for record, at_ms in first if at_ms < due_ms}
        assert {number % 2 for number in early} <= {0}
    broker.restart()
    with Cluster(broker.bootstrap_servers) as cluster:
        with ShareConsumer(cluster, name, [name], limits=QUICK) as consumer:
            rest = taken(consumer, 400 - len(first))  # a poll may return less than 50
            consumer.commit()
            assert consumer.poll(0) == []
        done = {int(record.value or b"") for record, _ in first}
        assert {int(record.value or b"") for record, _ in rest} == set(range(400)) - done
        assert all(int(record.value or b"") % 2 == 0 or at >= due_ms for record, at in rest)
        start = describe_start_offsets(cluster, name)[TopicPartition(name, 0)]
        assert isinstance(start, StartOffset)
        assert start.lag == 0


def test_a_released_record_comes_back_after_the_back_off(cluster: Cluster) -> None:
    name = queue(cluster, "backing-off", odradek_share_backoff_ms="300")
    send(cluster, name, (b"first", None), (b"second", None))
    with ShareConsumer(cluster, name, [name], limits=QUICK) as consumer:
        records: list[ShareRecord] = []
        while len(records) < 2:
            records += consumer.poll(10_000)
        begin_ms = now_ms()
        consumer.release(records[0])
        consumer.accept(records[1])
        ((record, at_ms),) = taken(consumer, 1)
        assert (record.value, record.delivery_count) == (b"first", 2)
        assert at_ms >= begin_ms + 300


def test_what_is_not_delivered_in_time_is_a_dead_letter(cluster: Cluster) -> None:
    update_features(cluster, {"share.version": 2}, UpgradeType.UPGRADE)
    letters = NewTopic("dlq.mortal", 1, configs={"errors.deadletterqueue.group.enable": "true"})
    assert not isinstance(create_topics(cluster, [letters])["dlq.mortal"], Exception)
    name = queue(
        cluster, "mortal",
        odradek_share_delay_enable="true",
        odradek_share_record_ttl_ms="600000",
        errors_deadletterqueue_topic_name="dlq.mortal",
        errors_deadletterqueue_copy_record_enable="true",
    )  # fmt: skip
    send(cluster, name, (b"old", now_ms() - 600_001), (b"new", now_ms() - 10))
    with ShareConsumer(cluster, name, [name], limits=QUICK) as consumer:
        assert [record.value for record, _ in taken(consumer, 1)] == [b"new"]
    place = {TopicPartition("dlq.mortal", 0): 0}
    while not (found := list(read_to_ends(cluster, place))):
        pass
    (record,) = records_of(found[0])
    assert record.value == b"old"
    assert dict(record.headers)["__dlq.errors.message"] == Cause.EXPIRED.value.encode()


def test_the_settings_of_a_group_are_checked(cluster: Cluster) -> None:
    group = Resource(ResourceType.GROUP, "checked")
    for name, value in (("odradek.share.backoff.ms", "-1"), ("odradek.share.record.ttl.ms", "-2")):
        change = Change(name, value, Operation.SET)
        assert alter_configs(cluster, {group: [change]})[group] is not None
