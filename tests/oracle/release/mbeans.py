"""The MBeans and attributes of a node of Apache Kafka 4.4.0, and the metrics of a node of Odradek.

Both nodes do the same work first, because many MBeans exist only after their first use. Values in
object names are replaced by `*`, except those in `KEPT`, which are the same on each node.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from compat.lab.apache_kafka import BRIEF_JVM_OPTIONS, NextApacheKafka
from compat.lab.toolchain import free_port, require

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition
from odradek.node.node import Node
from odradek.telemetry.mbeans import attributes

KEPT = {"type", "name", "ackType", "clientId", "delayedOperation", "featureName", "feature-name"}
KEPT |= {"protocol", "state"}
PROGRAM = Path(__file__).parents[1] / "MBeans.java"
SETTLE_SECONDS = 3.0


def work(bootstrap: str) -> None:
    """Write in and without transactions, read, and commit offsets of a group."""
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic("orders", 2, 1)])
        key = TopicPartition("orders", 0)
        with Producer(cluster) as producer:
            producer.send("orders", b"x", partition=0)
        with Producer(cluster, transactional_id="job") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"x", partition=1)
        for batch in read_to_ends(cluster, {key: 0}):
            list(batch.values())
        commit_offsets(cluster, "readers", {key: CommittedOffset(1)})


def of_apache_kafka() -> list[str]:
    """Return the attributes of a running node of Apache Kafka, as `PATTERN ATTRIBUTE`.

    Raises:
        Missing: Java or Maven is not installed.
    """
    port = free_port()

    class WithAgent(NextApacheKafka):
        jvm_options = (
            *BRIEF_JVM_OPTIONS,
            f"-Dcom.sun.management.jmxremote.port={port}",
            f"-Dcom.sun.management.jmxremote.rmi.port={port}",
            "-Dcom.sun.management.jmxremote.host=127.0.0.1",
            "-Djava.rmi.server.hostname=127.0.0.1",
            "-Dcom.sun.management.jmxremote.authenticate=false",
            "-Dcom.sun.management.jmxremote.ssl=false",
        )

    with WithAgent() as broker:
        work(broker.bootstrap)
        time.sleep(SETTLE_SECONDS)  # some MBeans are made by threads
        command = [require("java"), "-XX:TieredStopAtLevel=1", PROGRAM, str(port)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
    found = set()
    for line in listed.stdout.splitlines():
        name, names = line.split("\t")
        found |= {f"{pattern(name)} {each}" for each in names.split(",")}
    return sorted(found)


def of_node(node: Node) -> set[str]:
    """Return the attributes of a node of Odradek, as `PATTERN ATTRIBUTE`."""
    found = {f"{pattern(name)} {attribute}" for name, attribute in _values(node)}
    for metric in node.metrics.metrics():
        found |= {f"{pattern(metric.mbean.pattern)} {each}" for each in attributes(metric)}
    return found


def _values(node: Node) -> Iterable[tuple[str, str]]:
    return (each[:2] for each in node.metrics.values())


def pattern(name: str) -> str:
    """Return an object name with `*` for values that differ between nodes, keys in order."""
    domain, _, rest = name.partition(":")
    pairs = [each.split("=", 1) for each in rest.split(",")]
    shown = {key: value if key in KEPT else "*" for key, value in pairs}
    first = [key for key in ("type", "name") if key in shown]
    order = [*first, *sorted(shown.keys() - set(first))]
    return f"{domain}:{','.join(f'{key}={shown[key]}' for key in order)}"
