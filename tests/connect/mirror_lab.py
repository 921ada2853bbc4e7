"""Two brokers between which topics are mirrored: what they have, and settings of the dedicated mode."""

from __future__ import annotations

import time
from typing import Any

from odradek.client import Producer
from odradek.client.admin.topics import list_topics
from odradek.client.cluster import Cluster
from odradek.client.commits import commit_offsets, fetch_offsets
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.group_metadata import CommittedOffset
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

START_MS = round(time.time() * 1000)
"""The time of the first record. Records of an old time would be deleted by retention."""


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


def connected(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


def counts(broker: Broker) -> dict[str, int]:
    with connected(broker) as cluster:
        return {each.name: len(each.partitions) for each in list_topics(cluster)}


def records_of(broker: Broker, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    """Return key, value, headers and time of the records of a partition; none if there is no topic."""
    if topic not in counts(broker):
        return []
    with connected(broker) as cluster:
        return [
            (each.key, each.value, each.headers, each.timestamp)
            for batch in read_to_ends(cluster, {place(topic, partition): 0})
            for each in batch
        ]


def produce(broker: Broker, topic: str, start: int, count: int, partitions: int) -> None:
    """Produce different records: some without key, value or headers."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(start, start + count):
            producer.send(
                topic,
                None if number % 7 == 3 else b"value %d" % number,
                key=None if number % 5 == 2 else b"key %d" % number,
                headers=[("a", b"\x00\xff"), ("a", None)] if number % 3 == 0 else None,
                partition=number % partitions,
                timestamp=START_MS + number,
            )


def commit(broker: Broker, group: str, offsets: dict[TopicPartition, int]) -> None:
    with connected(broker) as cluster:
        found = {each: CommittedOffset(offset) for each, offset in offsets.items()}
        assert not any(commit_offsets(cluster, group, found).values())


def committed(broker: Broker, group: str) -> dict[TopicPartition, int]:
    with connected(broker) as cluster:
        return {each: found.offset for each, found in fetch_offsets(cluster, group).items()}


def settings(source: str, target: str) -> dict[str, str]:
    """Return a file of the dedicated mode: `orders` flows from eu to us."""
    one = (
        *("config.storage", "offset.storage", "status.storage", "offset-syncs.topic"),
        *("checkpoints.topic", "heartbeats.topic"),
    )
    return {
        "clusters": "eu, us",
        "eu.bootstrap.servers": source,
        "us.bootstrap.servers": target,
        "eu->us.enabled": "true",
        "eu->us.topics": "orders",
        "offset.storage.partitions": "1",
        "us.offset.flush.interval.ms": "200",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "replication.factor": "1",
        **{f"{each}.replication.factor": "1" for each in one},
    }
