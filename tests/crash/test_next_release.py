"""Clusters of Odradek and Apache Kafka 4.4: each formats for the other, and features are upgraded.

The controller runs on a directory that the other program has formatted. A broker of each program
joins. All nodes show the same features, users and topics, and keep them when they are killed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compat.lab import java
from compat.lab.apache_kafka import BRIEF_JVM_OPTIONS, NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.cluster import (
    APACHE,
    ODRADEK,
    QUICK_SETTINGS,
    ApacheMember,
    Cluster,
    Member,
    Node,
    OdradekMember,
)
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing
from tests.support.waiting import until

from odradek.client.admin.cluster import features, unregister_broker
from odradek.client.admin.topics import NewTopic, create_topics, list_topics
from odradek.client.admin.users import describe_users
from odradek.client.cluster import Cluster as Client
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(300)]
NEXT = "next"
ALICE = "SCRAM-SHA-256=[name=alice,password=secret]"
LEVELS = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
TOPIC = "t"


class OursWithAlice(OdradekMember):
    """Formats with a user."""

    credentials = (ALICE,)


class TheirsWithAlice(ApacheMember):
    """A node of Apache Kafka 4.4 with its default features. It formats with a user."""

    name = NextApacheKafka.name
    features = ()
    credentials = (ALICE,)
    find_jars = staticmethod(next_jars)


def cluster(path: Path, members: dict[int, Member]) -> Cluster:
    kinds: dict[str, type[Node]] = {
        ODRADEK: OursWithAlice,
        NEXT: TheirsWithAlice,
        APACHE: ApacheMember,
    }
    try:
        next_jars()
        return Cluster(path, members, QUICK_SETTINGS, kinds)
    except Missing as reason:
        pytest.skip(str(reason))


def shown(bootstrap: str) -> tuple[dict[str, int], list[str], list[str]]:
    """Return the finalized features, the users and the topics that a broker shows."""
    with Client(bootstrap) as client:
        levels = {each.name: each.level for each in features(client.any()) if each.level}
        levels.pop("kraft.version", None)
        users = list(describe_users(client))
        topics = [each.name for each in list_topics(client)]
    return levels, users, topics


def wait_for(node: Broker, expected: tuple[dict[str, int], list[str], list[str]]) -> None:
    until(lambda: shown(node.bootstrap) == expected)


def write(nodes: Cluster, number: int) -> list[bytes]:
    values = [f"{number}-{each}".encode() for each in range(20)]
    with Client(nodes.bootstrap) as client, Producer(client) as producer:
        for each in values:
            producer.send(TOPIC, each)
        producer.flush()
    return values


def read(nodes: Cluster, count: int) -> list[bytes]:
    with Client(nodes.bootstrap) as client:
        found: list[bytes] = []
        while len(found) < count:
            batches = read_to_ends(client, {TopicPartition(TOPIC, 0): 0})
            found = [each or b"" for batch in batches for each in batch.values()]
    return found


@pytest.mark.parametrize(("formats", "runs"), [(NEXT, ODRADEK), (ODRADEK, NEXT)])
@pytest.mark.slow("three nodes start, two of them Apache Kafka's, and are killed")
def test_one_formats_and_the_other_runs(tmp_path: Path, formats: str, runs: str) -> None:
    members = {1: Member(formats), 2: Member(ODRADEK, "broker"), 3: Member(NEXT, "broker")}
    nodes = cluster(tmp_path, members)
    nodes.nodes[1].prepare()
    nodes.replace(1, runs)
    try:
        nodes.start()
        with Client(nodes.bootstrap) as client:
            create_topics(client, [NewTopic(TOPIC, 1, 3, {"min.insync.replicas": "2"})])
        expected = LEVELS, ["alice"], [TOPIC]
        for node in nodes.nodes.values():
            wait_for(node, expected)
        written = write(nodes, 0)
        for number, node in enumerate(nodes.nodes.values(), 1):
            node.kill()
            nodes.start(node.node_id)
            wait_for(node, expected)
            nodes.wait_until_in_sync((TOPIC,))
            written += write(nodes, number)
        assert read(nodes, len(written)) == written
    finally:
        nodes.close()


@pytest.mark.slow("nodes of three releases start, and Apache Kafka's tool runs eight times")
def test_levels_are_raised_one_by_one(tmp_path: Path) -> None:
    """The upgrade names the node that does not know a level. Lower levels are refused."""
    members = {1: Member(ODRADEK), 2: Member(NEXT, "broker"), 3: Member(APACHE, "broker")}
    nodes = cluster(tmp_path, members)
    command = java.command(
        "org.apache.kafka.tools.FeatureCommand", next_jars(), options=list(BRIEF_JVM_OPTIONS)
    )

    def change(kind: str, level: int) -> str:
        words = ["--bootstrap-server", nodes.nodes[1].bootstrap, kind]
        words += ["--feature", f"metadata.version={level}"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    try:
        nodes.start()
        assert "Broker 3 only supports versions 7-30" in change("upgrade", 33)
        nodes.nodes[3].stop()
        nodes.wait_until_fenced(3)
        assert "Broker 3 only supports versions 7-30" in change("upgrade", 31)
        with Client(nodes.nodes[1].bootstrap) as client:
            unregister_broker(client, 3)
            create_topics(client, [NewTopic(TOPIC, 1, 2)])
        written = []
        for level in (31, 32, 33):
            assert f"was upgraded to {level}" in change("upgrade", level)
            levels = LEVELS | {"metadata.version": level, "share.version": 1}
            for node_id in (1, 2):
                wait_for(nodes.nodes[node_id], (levels, ["alice"], [TOPIC]))
            written += write(nodes, level)
        assert "might delete metadata information" in change("downgrade", 31)
        assert read(nodes, len(written)) == written
    finally:
        nodes.close()
