"""Segment files of leaders and followers of a real cluster, whose nodes have their files here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.lab import cluster as lab
from compat.lab.cluster import APACHE, ODRADEK, QUICK_SETTINGS, Member
from compat.lab.toolchain import Missing
from confluent_kafka import Producer

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.model.topic_partition import TopicPartition
from odradek.spark.fetching import SplitReader
from odradek.spark.options import ReadOptions, read_options
from odradek.spark.planning import Split
from odradek.spark.replicas import NoReplicaError, find
from odradek.spark.segment_reading import SegmentReader

pytestmark = pytest.mark.cluster

TOPIC = TopicPartition("topic", 0)
SETTINGS = QUICK_SETTINGS | {
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
}


@pytest.fixture(params=[ODRADEK, pytest.param(APACHE, marks=(pytest.mark.java, pytest.mark.long))])
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lab.Cluster]:
    try:
        running = lab.Cluster(tmp_path, dict.fromkeys((1, 2, 3), Member(request.param)), SETTINGS)
    except Missing as reason:
        pytest.skip(str(reason))
    try:
        running.start()
        yield running
    finally:
        running.close()


def options(nodes: lab.Cluster, node_id: int, isolation: str) -> ReadOptions:
    given = {"bootstrap.servers": nodes.bootstrap, "subscribe": TOPIC.topic}
    given |= {"readFrom": "segments", "logDirs": str(nodes.nodes[node_id].data)}
    return read_options({**given, "isolation.level": isolation}, streaming=False)


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.to_pylist()]


def write(servers: str, name: str) -> None:
    """Write a transaction that is committed and one that is aborted."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "writer"})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(100):
            producer.produce(TOPIC.topic, f"{name} {end.__name__} {number}")
        producer.flush(60)
        end(60)


def check(nodes: lab.Cluster, cluster: Cluster, in_sync: set[int], count: int) -> None:
    """Check that each replica in sync has the leader's rows, as soon as its checkpoint is new."""
    for isolation, wanted in (("read_committed", count), ("read_uncommitted", 2 * count)):
        for node_id in sorted(in_sync):
            given = options(nodes, node_id, isolation)
            committed = given.read_committed
            while True:
                replica = find(cluster, given.log_directories, TOPIC, committed)
                if replica.has_all_markers:
                    break
                time.sleep(0.05)
            split = Split(TOPIC, 0, replica.end)
            expected = rows(SplitReader(cluster, given, split))
            assert len(expected) == wanted
            reader = SegmentReader(cluster, given, split)
            assert rows(reader) == expected
            assert reader.next_offset == replica.end, f"node {node_id}"


def test_every_replica_in_sync_has_the_rows_of_the_leader(nodes):
    with Cluster(nodes.bootstrap) as cluster:
        create_topics(cluster, [NewTopic(TOPIC.topic, 1, 3, {"min.insync.replicas": "1"})])
        nodes.wait_until_in_sync([TOPIC.topic])
        write(nodes.bootstrap, "first")
        check(nodes, cluster, {1, 2, 3}, 100)
        leader = nodes.leaders(TOPIC.topic)[0]
        nodes.nodes[leader].kill()
        nodes.wait_until_fenced(leader)
        write(nodes.bootstrap, "second")
        check(nodes, cluster, {1, 2, 3} - {leader}, 200)
        with pytest.raises(NoReplicaError, match=f"node {leader} in .* is not in sync"):
            find(cluster, options(nodes, leader, "read_committed").log_directories, TOPIC, True)
