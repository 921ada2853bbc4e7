"""librdkafka consumers in groups of the consumer protocol, over sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek.client.admin.groups import Group, describe_groups
from odradek.client.cluster import Cluster
from odradek.testing import Broker

PARTITIONS = 6
PATIENCE_SECONDS = 30
NEW = {"group.protocol": "consumer"}
CLASSIC = {
    "heartbeat.interval.ms": 200,
    "session.timeout.ms": 6000,
    "partition.assignment.strategy": "range",
}
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": PARTITIONS}, settings=SETTINGS) as broker:
        yield broker


@contextmanager
def member(
    broker: Broker, group: str, protocol: dict[str, Any], topic: str = "t"
) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 500,
        **protocol,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(members: list[Consumer], count: int) -> list[tuple[int, int]]:
    """Poll until all partitions have one owner each and `count` records came."""
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for each in members:
            message: Any = each.poll(0.02)
            if message is not None and message.error() is None:
                found.append((message.partition(), message.offset()))
        owned = sorted(p.partition for each in members for p in each.assignment())
        sizes = [len(each.assignment()) for each in members]
        if (
            owned == list(range(PARTITIONS))
            and max(sizes) - min(sizes) <= 1
            and len(found) >= count
        ):
            return found
        assert time.monotonic() < deadline, (sizes, found)


def produce(broker: Broker, topic: str = "t") -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        producer.produce(topic, b"value", partition=partition)
    assert producer.flush(PATIENCE_SECONDS) == 0


def described(broker: Broker, group: str) -> Group:
    cluster = Cluster(broker.bootstrap_servers)
    try:
        found = describe_groups(cluster, [group])[group]
    finally:
        cluster.close()
    assert isinstance(found, Group), found
    return found


def test_members_come_and_go(broker: Broker) -> None:
    with member(broker, "comes", NEW) as one:
        read([one], 0)
        with member(broker, "comes", NEW) as two, member(broker, "comes", NEW) as three:
            everyone = [one, two, three]
            read(everyone, 0)
            produce(broker)
            found = read(everyone, PARTITIONS)
            assert sorted(partition for partition, _ in found) == list(range(PARTITIONS))
            for each in everyone:
                each.commit(asynchronous=False)
            seen = described(broker, "comes")
            assert (seen.type, seen.state, len(seen.members)) == ("consumer", "Stable", 3)
        read([one], 0)
    assert described(broker, "comes").state == "Empty"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = ConsumerGroupTopicPartitions(
        "comes", [TopicPartition("t", p) for p in range(PARTITIONS)]
    )
    (answer,) = admin.list_consumer_group_offsets([wanted]).values()
    offsets = {each.partition: each.offset for each in answer.result().topic_partitions}
    last = dict(found)
    assert offsets == {partition: last[partition] + 1 for partition in range(PARTITIONS)}


def test_a_pattern(broker: Broker) -> None:
    with member(broker, "pattern", NEW, "^[s-u]$") as one:
        read([one], 0)


def test_a_group_changes_its_protocol_while_it_reads(broker: Broker) -> None:
    with member(broker, "moves", CLASSIC) as old:
        read([old], 0)
        with member(broker, "moves", NEW) as new:
            read([old, new], 0)
            assert described(broker, "moves").type == "consumer"
        read([old], 0)
        assert described(broker, "moves").type == "classic"
