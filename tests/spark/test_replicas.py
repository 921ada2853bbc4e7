"""Which directories are read instead of the broker, and the rows that queries then have."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.client.admin.topics import delete_records
from odradek.client.errors import BrokerError
from odradek.model.topic_partition import TopicPartition
from odradek.spark.options import read_options
from odradek.spark.readers import BatchReader
from odradek.spark.replicas import NoReplicaError, Replica, find
from odradek.spark.resolution import DataLossError
from odradek.spark.segment_reading import ReplicaError

OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def log_directory(broker) -> Path:
    """The log directory of the broker."""
    (found,) = {path.parent for path in broker.directory.rglob("meta.properties")}
    return found


@pytest.fixture
def topic(servers, make_topic) -> str:
    """A topic with ten records in partition 0."""
    name = make_topic()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce(name, str(number), partition=0)
    assert producer.flush(30) == 0
    return name


def found(cluster, topic: str, *directories: Path) -> Replica:
    return find(cluster, [str(each) for each in directories], TopicPartition(topic, 0), False)


def copied(source: Path, target: Path, topic: str) -> Path:
    """A copy of a log directory with one partition."""
    target.mkdir()
    shutil.copy(source / "meta.properties", target)
    shutil.copytree(source / f"{topic}-0", target / f"{topic}-0")
    return target


def test_the_leaders_directory_is_found(cluster, topic, log_directory, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    replica = found(cluster, topic, other, log_directory)
    assert replica.path == f"{log_directory}/{topic}-0"
    assert (replica.is_leader, replica.start, replica.end) == (True, 0, 10)
    assert replica.has_all_markers


def test_other_directories_are_refused_with_the_reason(cluster, topic, log_directory, tmp_path):
    copy = copied(log_directory, tmp_path / "copy", topic)
    properties = copy / "meta.properties"
    text = properties.read_text()
    with pytest.raises(NoReplicaError, match="only one can be the right one"):
        found(cluster, topic, copy, log_directory)
    with pytest.raises(NoReplicaError, match="missing: No such file"):
        found(cluster, topic, tmp_path / "missing")
    with pytest.raises(NoReplicaError, match=f"has no directory {topic}-0"):
        found(cluster, topic, tmp_path)
    node_id = next(line for line in text.splitlines() if line.startswith("node.id"))
    properties.write_text(text.replace(node_id, "node.id=77"))
    with pytest.raises(NoReplicaError, match=r"node 77 in .* is not in sync"):
        found(cluster, topic, copy)
    properties.write_text(text.replace(node_id, ""))
    with pytest.raises(NoReplicaError, match=r"has no node\.id"):
        found(cluster, topic, copy)
    properties.write_text(text.replace("cluster.id=", "cluster.id=another"))
    with pytest.raises(NoReplicaError, match=r"belongs to cluster another.*, not to"):
        found(cluster, topic, copy)
    properties.write_text(text)
    (copy / f"{topic}-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}\n")
    with pytest.raises(NoReplicaError, match=f"a topic with the id {OTHER_ID}, not"):
        found(cluster, topic, copy)
    (copy / f"{topic}-0" / "partition.metadata").unlink()
    with pytest.raises(NoReplicaError, match=r"partition\.metadata: No such file"):
        found(cluster, topic, copy)


def test_a_follower_is_read_up_to_its_stored_high_watermark(
    cluster, topic, log_directory, tmp_path, monkeypatch
):
    """The copy plays a follower in sync: the cluster of the test has one node."""
    copy = copied(log_directory, tmp_path / "copy", topic)
    properties = copy / "meta.properties"
    lines = (each for each in properties.read_text().splitlines() if not each.startswith("node.id"))
    properties.write_text("\n".join((*lines, "node.id=77")))
    name = TopicPartition(topic, 0)
    real = cluster.topic(topic)
    in_sync = dataclasses.replace(real.partitions[0], in_sync=(77,))
    monkeypatch.setattr(
        cluster, "topic", lambda _: dataclasses.replace(real, partitions={0: in_sync})
    )
    with pytest.raises(BrokerError, match="BROKER_NOT_AVAILABLE"):
        found(cluster, topic, copy)
    cluster.metadata.nodes[77] = cluster.metadata.nodes[in_sync.leader]
    monkeypatch.setattr(cluster, "refresh", lambda _: cluster.metadata)
    replica = found(cluster, topic, copy)
    assert (replica.is_leader, replica.end, replica.high_watermark) == (False, 0, 10)
    assert not replica.has_all_markers
    (copy / "replication-offset-checkpoint").write_text(f"0\n2\n{topic} 1 9\n{topic} 0 6\n")
    replica = found(cluster, topic, copy)
    assert (replica.start, replica.end, replica.stored_high_watermark) == (0, 6, 6)
    epoch = in_sync.leader_epoch
    assert replica.has(cluster, epoch, 9)
    assert not replica.has(cluster, epoch, 10)
    assert not replica.has(cluster, epoch + 1, 3)
    assert str(name) in replica.path


# -- reads ------------------------------------------------------------------------------------


@pytest.fixture
def read(servers, log_directory):
    """Reads in this process as Spark does, from segments unless told otherwise."""

    def read_rows(**options: str) -> list[dict]:
        if options.get("readFrom") != "broker":
            options = {"readFrom": "segments", "logDirs": str(log_directory), **options}
        parsed = read_options({"bootstrap.servers": servers, **options}, streaming=False)
        reader = BatchReader(parsed)
        splits = reader.partitions()
        rows = [row for each in splits for batch in reader.read(each) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    return read_rows


def values(rows: list[dict]) -> list[str]:
    return [row["value"].decode() for row in rows]


@pytest.fixture
def filled(servers, make_topic) -> Iterator[str]:
    """A topic with several codecs, and transactions that are committed, aborted and open."""
    topic = make_topic(partitions=2)
    settings = {"bootstrap.servers": servers, "linger.ms": 1}
    for codec in ("none", "zstd"):
        producer = Producer({**settings, "compression.type": codec})
        for each in range(100):
            headers = [("h", b"x")] if each % 7 == 0 else None
            producer.produce(topic, f"{codec}{each}", f"k{each % 9}", each % 2, headers=headers)
        assert producer.flush(30) == 0
    producer = Producer({**settings, "transactional.id": topic, "transaction.timeout.ms": 900_000})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        for each in range(10):
            name = "open" if end is None else end.__name__
            producer.produce(topic, f"{name}{each}", partition=each % 2)
        producer.flush(30)
        if end is not None:
            end(30)
    yield topic
    producer.abort_transaction(30)


@pytest.mark.usefixtures("transactions")
def test_rows_from_segments_are_those_from_the_broker(read, filled):
    for isolation, count in (("read_committed", 210), ("read_uncommitted", 230)):
        options = {"subscribe": filled, "includeHeaders": "true", "minPartitions": "5"}
        options["kafka.isolation.level"] = isolation
        expected = read(**options, readFrom="broker")
        assert len(expected) == count
        assert read(**options) == expected


def test_files_are_read_and_not_the_broker(read, topic, log_directory, tmp_path, monkeypatch):
    copy = copied(log_directory, tmp_path / "copy", topic)
    with monkeypatch.context() as patched:
        patched.setattr("odradek.spark.fetching.SplitReader._fetch", None)
        assert values(read(subscribe=topic, logDirs=str(copy))) == list("0123456789")
    (segment,) = (copy / f"{topic}-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    assert values(read(subscribe=topic, logDirs=str(copy))) == list("0123456789")


def test_a_task_without_files_fails_or_reads_through_the_broker(read, topic, tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(ReplicaError, match=r"cannot be read from segments: .*readFrom=auto"):
        read(subscribe=topic, logDirs=missing)
    assert values(read(subscribe=topic, logDirs=missing, readFrom="auto")) == list("0123456789")


def test_lost_records_are_reported_as_with_the_broker(read, topic, cluster):
    partition = TopicPartition(topic, 0)
    assert not isinstance(delete_records(cluster, {partition: 4})[partition], Exception)
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 1}}}}'}
    with pytest.raises(DataLossError, match=r"offsets 1 to 3 of .* no longer exist"):
        read(**options)
    with pytest.warns(UserWarning, match="no longer exist"):
        assert values(read(**options, failOnDataLoss="false")) == list("456789")


@pytest.mark.spark
@pytest.mark.cluster
def test_queries_have_the_same_rows_from_segments_and_from_the_broker(
    spark, servers, log_directory, filled, tmp_path
):
    connection = {"kafka.bootstrap.servers": servers, "subscribe": filled}
    options = {**connection, "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    segments = {**options, "readFrom": "segments", "logDirs": str(log_directory)}

    def in_order(rows: list) -> list:
        return sorted(rows, key=lambda row: (row.partition, row.offset))

    expected = in_order(spark.read.format("odradek").options(**options).load().collect())
    assert len(expected) == 210
    assert in_order(spark.read.format("odradek").options(**segments).load().collect()) == expected
    streamed: list = []
    query = (
        spark.readStream.format("odradek")
        .options(**segments, startingOffsets="earliest", maxOffsetsPerTrigger="150")
        .load()
        .writeStream.foreachBatch(lambda rows, _: streamed.extend(rows.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert in_order(streamed) == expected
