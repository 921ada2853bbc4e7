"""The metrics of topics, of what was rejected, and of the process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient

from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import MAGIC_POSITION
from odradek.testing import Broker
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse

from .exported import by_labels

PREFIX = "kafka_server_brokertopicmetrics"
BATCHES = 100
"""So many that a log no longer knows where the first one is."""


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


def test_reads_of_damaged_records_are_failed_fetches(tmp_path: Path) -> None:
    with (
        Broker(data=str(tmp_path), topics={"damaged": 1}) as broker,
        WireClient(broker.port) as client,
    ):
        for _ in range(BATCHES):
            client.produce_one("damaged", b"value")
        (log,) = tmp_path.glob("damaged-0/*.log")
        with log.open("r+b") as file:
            file.seek(MAGIC_POSITION)
            file.write(b"\x07")
        for offset, code in (
            (1000, ErrorCode.OFFSET_OUT_OF_RANGE),
            (0, ErrorCode.CORRUPT_MESSAGE),
        ):
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
            topic = FetchTopic(topic="damaged", partitions=[wanted])
            request = FetchRequest(max_bytes=1000, session_epoch=-1, topics=[topic])
            answer = client.call("Fetch", 12, request, FetchResponse)
            assert answer.responses[0].partitions[0].error_code == code
        found = by_labels(broker.node)
    assert found[f"{PREFIX}_failedfetchrequests_total", ("damaged",)] == 1
    assert found[f"{PREFIX}_failedfetchrequests_total", ()] == 1
    assert found[f"{PREFIX}_totalfetchrequests_total", ("damaged",)] == 2


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
