"""Apache Kafka's Connect and MirrorMaker 2 with nodes of Odradek, while a broker is killed.

Both run exactly-once source tasks: the offsets of the source and the records are written in one
transaction, and a new generation of tasks fences the transactions of the old one (KIP-618).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compat.lab import java
from compat.lab.cluster import QUICK_SETTINGS, Cluster, Member
from compat.lab.maven import CONNECT, KAFKA_VERSION, jars
from compat.lab.toolchain import Missing, free_port
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.child import Child
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long]

SETTINGS = {
    "exactly.once.source.support": "enabled",
    "offset.storage.replication.factor": "-1",
    "config.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "offset.flush.interval.ms": "1000",
}
CONVERTERS = {
    f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter"
    for part in ("key", "value")
}
LINES = 3000
GROUP_LINES = 1000


@contextmanager
def running(main_class: str, properties: Mapping[str, str], path: Path) -> Iterator[None]:
    """Run a Java program with a file of properties as its argument."""
    try:
        program = java.command(
            main_class, jars(f"connect-{KAFKA_VERSION}", CONNECT), options=["-Xmx256m"]
        )
    except Missing as reason:
        pytest.skip(str(reason))
    file = path.with_suffix(".properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with Child([*program, file], output=path.with_suffix(".log")) as process:
        yield
        process.check()


def request(port: int, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send a request to the REST API of Connect; return the response, or None if it fails."""
    message = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(message, timeout=30) as response:
            return json.load(response)
    except OSError:
        return None


def values(bootstrap: str, topic: str, end: int = 2**62) -> list[str]:
    """Return the values of the committed records of partition 0 below the offset `end`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "values",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for _ in range(100 * LINES):
            message = consumer.poll(10.0)
            if message is None or message.error():
                break
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            if offset >= end:
                break
            found.append(value.decode())
    finally:
        consumer.close()
    return found


def lines(first: int, count: int) -> list[str]:
    """Return the numbered lines that the tests copy."""
    return [f"line {number}" for number in range(first, first + count)]


def has_line(path: Path, line: str) -> bool:
    """Return whether the file exists and has the line."""
    return path.exists() and line in path.read_text().splitlines()


def cluster_of(path: Path, nodes: int) -> Cluster:
    """Return a cluster of nodes of Odradek."""
    settings = {**QUICK_SETTINGS, "default.replication.factor": str(nodes)}
    return Cluster(path, {node_id: Member() for node_id in range(1, nodes + 1)}, settings)


@pytest.mark.timeout(600)
def test_connect_copies_a_file_once(tmp_path: Path, figures: list[str]) -> None:
    port = free_port()
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.touch()
    with ExitStack() as stack:
        cluster = cluster_of(tmp_path / "cluster", 3)
        stack.callback(cluster.close)
        cluster.start()
        settings = {
            **SETTINGS,
            **CONVERTERS,
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "connect",
            "offset.storage.topic": "connect-offsets",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "listeners": f"http://127.0.0.1:{port}",
        }
        worker = "org.apache.kafka.connect.cli.ConnectDistributed"
        stack.enter_context(running(worker, settings, tmp_path / "connect"))
        until(lambda: request(port, "/connectors") == [], "the worker is ready")
        for name, extra in {
            "Source": {"file": str(source), "topic": "lines"},
            "Sink": {"file": str(target), "topics": "lines"},
        }.items():
            kind = f"org.apache.kafka.connect.file.FileStream{name}Connector"
            config = {"connector.class": kind, "tasks.max": "1", **extra}
            created = request(port, "/connectors", {"name": name, "config": config})
            assert created is not None
        sent: list[str] = []
        for number, node_id in enumerate((1, 2, 3)):
            with open(source, "a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines(number * LINES, LINES))
            sent += lines(number * LINES, LINES)
            node = cluster.nodes[node_id]
            node.kill()
            until(partial(has_line, target, sent[-1]), "the sink has all")
            cluster.start(node_id)
        assert values(cluster.bootstrap, "lines") == sent
        # The sink is at-least-once: a kill may repeat lines, but none may be missing.
        assert set(target.read_text().splitlines()) == set(sent)
        figures.append(f"{len(sent)} lines through Connect, each once; 3 kills of brokers")


@pytest.mark.timeout(600)
def test_mirror_maker_copies_once(tmp_path: Path, figures: list[str]) -> None:
    with ExitStack() as stack:
        left, right = cluster_of(tmp_path / "left", 1), cluster_of(tmp_path / "right", 3)
        for cluster in (left, right):
            stack.callback(cluster.close)
            cluster.start()
        settings = {
            **SETTINGS,
            "clusters": "left,right",
            "left.bootstrap.servers": left.bootstrap,
            "right.bootstrap.servers": right.bootstrap,
            "left->right.enabled": "true",
            "left->right.topics": "lines",
            "right->left.enabled": "false",
            "replication.factor": "-1",
            "checkpoints.topic.replication.factor": "-1",
            "heartbeats.topic.replication.factor": "-1",
            "offset-syncs.topic.replication.factor": "-1",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{free_port()}",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "2",
            "refresh.topics.interval.seconds": "2",
        }
        producer = Producer({"bootstrap.servers": left.bootstrap, "enable.idempotence": True})
        sent: list[str] = []
        send(producer, sent)
        mirror = "org.apache.kafka.connect.mirror.MirrorMaker"
        stack.enter_context(running(mirror, settings, tmp_path / "mirror"))
        copied = "left.lines"
        until(lambda: values(right.bootstrap, copied) == sent, "the first records are copied")
        send(producer, sent)
        consumed = len(sent) - GROUP_LINES
        commit(left.bootstrap, consumed)
        for node_id in (1, 2, 3):
            right.nodes[node_id].kill()
            send(producer, sent)
            until(lambda: values(right.bootstrap, copied) == sent, "all records are copied")
            right.start(node_id)
        until(lambda: committed(right.bootstrap, copied) > 0, "the group's offset is copied")
        offset = committed(right.bootstrap, copied)
        # The copied offset may be lower than the exact one, but must not skip records.
        assert 0 < len(values(right.bootstrap, copied, offset)) <= consumed
        figures.append(f"{len(sent)} records mirrored, each once; 3 kills of brokers")


def send(producer: Producer, sent: list[str]) -> None:
    """Send further lines and wait until they are acknowledged."""
    more = lines(len(sent), LINES)
    for line in more:
        producer.produce("lines", line.encode(), partition=0)
    assert producer.flush(60.0) == 0
    sent += more


def commit(bootstrap: str, offset: int) -> None:
    """Commit the offset of the group "reports" in partition 0 of the topic "lines"."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reports", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        consumer.commit(offsets=[TopicPartition("lines", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed(bootstrap: str, topic: str) -> int:
    """Return the committed offset of the group "reports" in partition 0, or a negative number."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reports"})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30.0)
        return found.offset
    finally:
        consumer.close()
