"""`python -m bench.metrics`: compares the counters of a node with Apache Kafka's, and measures a scrape.

Apache Kafka runs with the Prometheus JMX exporter as its agent, without rules. The node has the same
spelling (`odradek.metrics.names=jmx`). Both get the same work: the same requests of one client, one
after another. Then the counters are compared that do not depend on time or on threads. The program
also lists the MBeans that only one of them has.

The scrape is one of a node with ten thousand partitions: its duration, its size, and the longest
iteration of the event loop meanwhile.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compat.lab.apache_kafka import BRIEF_JVM_OPTIONS, ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.maven import jars
from compat.lab.odradek_node import OdradekNode, metric
from compat.lab.toolchain import Missing, free_port
from prometheus_client.parser import text_string_to_metric_families

from bench.machine import facts
from bench.results import RESULTS
from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.client.consuming.to_ends import assigned_consumer
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition

AGENT = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
PARTITIONS = 10_000
SCRAPES = 5
BATCHES = 200
COMMITS = 50
SETTLE_SECONDS = 3.0
DIFFERENT = "DIFFERENT"

Key = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a sample and its labels."""


class Compared(NamedTuple):
    """Counters that the same work must make equal, as a pattern of the text of their samples."""

    pattern: str
    why_different: str = ""
    """Why the values may differ. Empty: they must be equal."""


def _meters(kind: str, names: str, labels: str = "") -> str:
    return rf'kafka_server_{kind}_Count\{{name="({names})"{labels}\}}'


def _values(domain: str, kind: str, names: str, labels: str = "") -> str:
    return rf'kafka_{domain}_{kind}_Value\{{name="({names})"{labels}\}}'


_TOPIC = '(,topic="\\w+")?'
_PARTITION = ',partition="\\d+",topic="(orders|compacted|small)"'
_REQUESTS = "Produce|OffsetCommit|ListOffsets"
COUNTERS = (
    Compared(
        _meters("BrokerTopicMetrics", "BytesInPerSec", '(,topic="__consumer_offsets")?'),
        "Apache Kafka writes the groups of a simple commit, and the markers of deletions, at other times",
    ),
    Compared(
        _meters(
            "BrokerTopicMetrics",
            "MessagesInPerSec|BytesInPerSec|BytesOutPerSec|TotalProduceRequestsPerSec"
            "|FailedProduceRequestsPerSec|FailedFetchRequestsPerSec|BytesRejectedPerSec"
            "|NoKeyCompactedTopicRecordsPerSec|Invalid\\w+|\\w+MessageConversionsPerSec"
            "|Re\\w+Bytes\\w+",
            _TOPIC,
        )
    ),
    Compared(
        _meters("BrokerTopicMetrics", "TotalFetchRequestsPerSec", _TOPIC),
        "it counts partitions that are read, and a waiting fetch reads several times",
    ),
    Compared(
        rf'kafka_network_RequestMetrics_Count\{{name="RequestsPerSec",request="({_REQUESTS})",version="\d+"\}}'
    ),
    Compared(
        rf'kafka_network_RequestMetrics_Count\{{name="(Total\w+|Local\w+|Re\w+TimeMs|MessageConversionsTimeMs|RequestBytes)",request="({_REQUESTS})"\}}'
    ),
    Compared(
        r'kafka_network_RequestMetrics_Max\{name="RequestBytes",request="(Produce|OffsetCommit)"\}'
    ),
    Compared(
        r'kafka_network_RequestMetrics_Count\{error="NONE",name="ErrorsPerSec",request="(Fetch|FetchConsumer|Metadata|DeleteTopics)"\}',
        "Apache Kafka counts NONE for each element of a response, Odradek for a response without errors",
    ),
    Compared(
        rf'kafka_network_RequestMetrics_Count\{{error="\w+",name="ErrorsPerSec",request="({_REQUESTS})"\}}'
    ),
    Compared(
        r'kafka_network_RequestMetrics_Count\{name="RequestsPerSec",request="(Create|Delete)Topics",version="\d+"\}',
        "Apache Kafka counts the request that its broker forwards to its controller, too",
    ),
    Compared(_values("log", "Log", "LogEndOffset|LogStartOffset|NumLogSegments|Size", _PARTITION)),
    Compared(_values("cluster", "Partition", "\\w+", _PARTITION)),
    Compared(
        _values(
            "server",
            "ReplicaManager",
            "PartitionCount|LeaderCount|UnderReplicatedPartitions|UnderMinIsrPartitionCount"
            "|AtMinIsrPartitionCount|OfflineReplicaCount|ReassigningPartitions|ProducerIdCount",
        )
    ),
    Compared(
        _values(
            "controller",
            "KafkaController",
            "Active\\w+|Fenced\\w+|Global\\w+|OfflinePartitionsCount|PreferredReplicaImbalanceCount"
            "|MetadataErrorCount|NewActiveControllersCount|TimedOutBrokerHeartbeatCount",
        )
    ),
    Compared(r"kafka_server_group_coordinator_metrics_offset_\w+_count"),
    Compared(
        r'kafka_server_group_coordinator_metrics_group_count\{protocol="\w+"\}',
        "Apache Kafka counts groups once a minute",
    ),
    Compared(
        _values("coordinator_group", "GroupMetadataManager", "NumGroups\\w*"),
        "Apache Kafka counts groups once a minute",
    ),
    Compared(_values("coordinator_group", "GroupMetadataManager", "NumOffsets")),
    Compared(_values("server", "KafkaServer", "BrokerState")),
    Compared(
        _values("server", "MetadataLoader", "CurrentMetadataVersion"),
        "Apache Kafka 4.3 formats with version 30, Odradek with that of 4.4",
    ),
    Compared(r"kafka_server_raft_metrics_(current_leader|current_vote|number_\w+)"),
)


class KafkaWithExporter(ApacheKafka):
    """Apache Kafka with the JMX exporter as its agent, without rules."""

    def __init__(self, *, settings: Mapping[str, str]) -> None:
        super().__init__(settings=settings)
        (agent,) = jars("jmx-exporter", (AGENT,), alone=True)
        self.metrics_port = free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        rules = self.directory / "rules.yml"
        rules.write_text("{}\n", encoding="utf-8")
        self.jvm_options = (*BRIEF_JVM_OPTIONS, f"-javaagent:{agent}={self.metrics_port}:{rules}")


def scrape(port: int) -> dict[Key, float]:
    """Return all samples."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def prepare(broker: Broker) -> None:
    """Create the topics, and let the coordinator of the group load."""
    compacted = NewTopic("compacted", 1, 1, configs={"cleanup.policy": "compact"})
    small = NewTopic("small", 1, 1, configs={"max.message.bytes": "500"})
    topics = [NewTopic("orders", 2, 1), compacted, small, NewTopic("short-lived", 3, 1)]
    with Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, topics)
        commit_offsets(cluster, "readers", {TopicPartition("orders", 0): CommittedOffset(0)})
    time.sleep(SETTLE_SECONDS)


def work(broker: Broker) -> None:
    """Do the same work on any broker."""
    with Cluster(broker.bootstrap) as cluster:
        for number in range(BATCHES):
            with Producer(cluster) as producer:
                producer.send("orders", b"x" * (50 + number), partition=number % 2)
        for topic, size in (("compacted", 10), ("small", 1000)):
            try:
                with Producer(cluster) as producer:
                    producer.send(topic, b"x" * size, partition=0)
            except ClientError as error:
                print(f"{broker.name}: as expected, {error}", file=sys.stderr)
        delete_topics(cluster, ["short-lived"])
        _read(cluster)
        for offset in range(COMMITS):
            offsets = {TopicPartition("orders", 0): CommittedOffset(offset)}
            commit_offsets(cluster, "readers", offsets)
    time.sleep(SETTLE_SECONDS)


def measured(broker: Broker, port: int) -> dict[Key, float]:
    """Return the samples after the work; counters count from the beginning of the work."""
    prepare(broker)
    before = scrape(port)
    work(broker)
    return {
        key: value - before.get(key, 0) if _is_counter(key[0]) else value
        for key, value in scrape(port).items()
    }


def _is_counter(name: str) -> bool:
    return name.endswith(("_Count", "_count")) and "group_count" not in name


def _read(cluster: Cluster) -> None:
    """Read each record once."""
    starts = {TopicPartition("orders", index): 0 for index in (0, 1)}
    read = 0
    with assigned_consumer(cluster, starts) as consumer:
        while read < BATCHES:
            batch = consumer.poll(1)
            read += 0 if batch is None else len(batch)


def compare(theirs: Mapping[Key, float], ours: Mapping[Key, float]) -> Iterator[dict[str, object]]:
    """Yield a line for each counter of Apache Kafka that the work makes comparable."""
    for key, value in sorted(theirs.items()):
        text = _text(key)
        for each in COUNTERS:
            if re.fullmatch(each.pattern, text):
                mine = ours.get(key)
                is_equal = mine == value or (mine is None and value == 0)
                yield {
                    "kind": "counter",
                    "sample": text,
                    "theirs": value,
                    "ours": mine,
                    "verdict": "equal" if is_equal else each.why_different or DIFFERENT,
                }
                break


def _text(key: Key) -> str:
    name, labels = key
    inner = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{inner}}}" if inner else name


def patterns(samples: Mapping[Key, float]) -> set[str]:
    """Return the MBeans of samples: names without attributes of meters, and the label `name`."""
    found = set()
    for name, labels in samples:
        if name.startswith("kafka_"):
            attribute = re.compile(
                r"_(Count|MeanRate|OneMinuteRate|FiveMinuteRate|FifteenMinuteRate|Min|Max|Mean|StdDev"
                r"|\d+thPercentile|Value)$"
            )
            found.add(f"{attribute.sub('', name)} {dict(labels).get('name', '')}".strip())
    return found


def compared() -> list[dict[str, object]]:
    """Run both brokers, and return the lines of the comparison."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with KafkaWithExporter(settings=settings) as kafka:
        theirs = measured(kafka, kafka.metrics_port)
    port = free_port()
    settings |= {"odradek.metrics.port": str(port), "odradek.metrics.names": "jmx"}
    with OdradekNode(settings=settings) as node:
        ours = measured(node, port)
    lines = list(compare(theirs, ours))
    their_names, our_names = patterns(theirs), patterns(ours)
    lines.append(
        {
            "kind": "mbeans",
            "both": len(their_names & our_names),
            "only_apache_kafka": sorted(their_names - our_names),
            "only_odradek": sorted(our_names - their_names),
        }
    )
    return lines


def scrapes() -> Iterator[dict[str, object]]:
    """Measure scrapes of a node with many partitions, in each spelling."""
    for names in ("total", "persec", "jmx"):
        port = free_port()
        settings = {"odradek.metrics.port": str(port), "odradek.metrics.names": names}
        with OdradekNode(settings=settings) as node:
            with Cluster(node.bootstrap, timeout_ms=120_000) as cluster:
                create_topics(cluster, [NewTopic("many", PARTITIONS, 1)])
            scrape_bytes(port)  # the first one imports modules
            durations, pauses, size = [], [], 0
            for _ in range(SCRAPES):
                metric(port, "odradek_loop_turns_total")
                time.sleep(1)
                began = time.perf_counter()
                size = scrape_bytes(port)
                durations.append(time.perf_counter() - began)
                pauses.append(metric(port, "odradek_loop_pause_seconds_max") or 0.0)
            yield {
                "kind": "scrape",
                "names": names,
                "partitions": PARTITIONS,
                "seconds": [round(each, 3) for each in durations],
                "median_seconds": round(statistics.median(durations), 3),
                "loop_pause_seconds": [round(each, 4) for each in pauses],
                "bytes": size,
            }


def scrape_bytes(port: int) -> int:
    """Scrape, and return the size of the text."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        return len(response.read())


def main(words: Sequence[str] | None = None) -> int:
    """Run both parts. Return 1 if a counter differs, or if a scrape takes more than a second."""
    parser = argparse.ArgumentParser(prog="python -m bench.metrics", description=__doc__)
    parser.add_argument("--only", choices=("counters", "scrapes"))
    parser.add_argument("--output", type=Path, help="default: a new file in bench/results/metrics")
    options = parser.parse_args(words)
    machine = facts()
    lines: list[dict[str, object]] = []
    try:
        if options.only != "scrapes":
            lines += compared()
        if options.only != "counters":
            lines += scrapes()
    except (BrokerFailed, Missing) as reason:
        print(f"the brokers cannot run: {reason}", file=sys.stderr)
        return 2
    show(lines)
    name = str(machine["time"])[:16].replace("-", "").replace(":", "").replace("T", "-")
    path = options.output or RESULTS / "metrics" / f"{name}-{machine['commit']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in (machine, *lines)), encoding="utf-8"
    )
    print(f"stored in {path.name}")
    failed = [each for each in lines if each.get("verdict") == DIFFERENT]
    slow = [each for each in lines if float(str(each.get("median_seconds", 0))) > 1]
    return 1 if failed or slow else 0


def show(lines: Sequence[Mapping[str, object]]) -> None:
    """Print what differs, and the scrapes."""
    counters = [each for each in lines if each["kind"] == "counter"]
    equal = sum(each["verdict"] == "equal" for each in counters)
    print(f"{equal} of {len(counters)} counters are equal")
    for each in lines:
        if each["kind"] != "counter":
            print(json.dumps(each, indent=1))
        elif each["verdict"] != "equal":
            print(f"{each['sample']}: {each['theirs']} and {each['ours']}: {each['verdict']}")


if __name__ == "__main__":
    sys.exit(main())
