"""The metrics of topics, of what was rejected, and of the process."""

from __future__ import annotations

import sys

import pytest

from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

from .exported import by_labels

PREFIX = "kafka_server_brokertopicmetrics"


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"orders": 2}) as started:
        yield started


@pytest.fixture
def cluster(broker):
    with Cluster(broker.bootstrap_servers) as found:
        yield found


def produce(cluster: Cluster, topic: str, count: int, size: int = 10) -> None:
    with Producer(cluster) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * size, partition=0)


def test_internal_topics_are_counted(broker, cluster) -> None:
    offsets = {TopicPartition("orders", 0): CommittedOffset(1)}
    commit_offsets(cluster, "readers", offsets)
    found = by_labels(broker.node)
    assert found[f"{PREFIX}_messagesin_total", ("__consumer_offsets",)] >= 1
    assert found[f"{PREFIX}_bytesin_total", ("__consumer_offsets",)] > 60
    assert found[f"{PREFIX}_totalproducerequests_total", ("__consumer_offsets",)] >= 1


def test_the_total_of_all_topics_keeps_what_deleted_topics_have_counted(broker, cluster) -> None:
    create_topics(cluster, [NewTopic("short-lived", 2, 1)])
    produce(cluster, "short-lived", 7)
    before = by_labels(broker.node)
    assert before[f"{PREFIX}_messagesin_total", ("short-lived",)] == 7
    delete_topics(cluster, ["short-lived"])
    after = by_labels(broker.node)
    assert (f"{PREFIX}_messagesin_total", ("short-lived",)) not in after
    for name in ("messagesin", "bytesin", "totalproducerequests"):
        key = (f"{PREFIX}_{name}_total", ())
        assert after[key] >= before[key]


def test_what_was_rejected(broker, cluster) -> None:
    compacted = NewTopic("compacted", 1, 1, configs={"cleanup.policy": "compact"})
    small = NewTopic("small", 1, 1, configs={"max.message.bytes": "100"})
    create_topics(cluster, [compacted, small])
    for topic, size in (("compacted", 10), ("small", 1000)):
        with pytest.raises(ClientError):
            produce(cluster, topic, 1, size)
    found = by_labels(broker.node)
    assert found[f"{PREFIX}_nokeycompactedtopicrecords_total", ()] == 1
    assert found[f"{PREFIX}_failedproducerequests_total", ("compacted",)] == 1
    assert found[f"{PREFIX}_bytesrejected_total", ("small",)] > 1000
    assert found[f"{PREFIX}_failedproducerequests_total", ("small",)] == 0
    assert found[f"{PREFIX}_totalproducerequests_total", ("small",)] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts what a process reads and writes")
def test_the_process_writes_to_disks(broker) -> None:
    found = by_labels(broker.node)
    assert found["kafka_server_kafkaserver_brokerstate", ()] == 3
    assert found["kafka_server_kafkaserver_linux_disk_write_bytes", ()] >= 0
    assert found["kafka_server_kafkaserver_linux_disk_read_bytes", ()] >= 0


def test_names_of_other_rules(broker, cluster) -> None:
    produce(cluster, "orders", 5)
    found = by_labels(broker.node, "persec")
    name = "kafka_server_brokertopicmetrics_messagesinpersec"
    assert found[name, ("orders",)] >= 5
    assert found[f"{name}_oneminuterate", ("orders",)] > 0
    assert found[f"{name}_oneminuterate_alltopics", ()] > 0
    found = by_labels(broker.node, "jmx")
    assert found["kafka_server_BrokerTopicMetrics_Count", ("orders", "MessagesInPerSec")] >= 5
