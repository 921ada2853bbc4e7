"""Clusters of processes: consumers read from a replica in their rack, and reassignments are throttled.

Apache Kafka's consumer and tool, and librdkafka, run against Odradek. librdkafka also runs against
Apache Kafka, which must do the same.
"""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from compat.lab.cluster import APACHE, ODRADEK, QUICK_SETTINGS, Cluster, Member
from compat.lab.toolchain import Missing, free_port
from compat.tools.workbench import Workbench
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from odradek.config.broker_config import RACK_AWARE_SELECTOR
from odradek.testing import Broker as InProcess

pytestmark = [pytest.mark.java, pytest.mark.cluster]

TOPIC = "near"
RECORDS = 300
RECORD_BYTES = 1000
NODES = (1, 2, 3)


class Racks(Cluster):
    """Three nodes, each in a rack of its own: rack1, rack2 and rack3."""

    def __init__(self, path: Path, program: str) -> None:
        self.metrics_ports = {each: free_port() for each in NODES}
        self.program = program
        settings = {
            **QUICK_SETTINGS,
            "replica.selector.class": RACK_AWARE_SELECTOR,
            "min.insync.replicas": "2",
        }
        super().__init__(path, dict.fromkeys(NODES, Member(program)), settings)

    def _new(self, node_id, port):
        self._settings["broker.rack"] = f"rack{node_id}"
        if self.program == ODRADEK:
            self._settings["odradek.metrics.port"] = str(self.metrics_ports[node_id])
        return super()._new(node_id, port)

    def create(self, topic: str, *replicas: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, 1, replica_assignment=[list(replicas)])
        admin.create_topics([new])[topic].result()
        self.wait_until_in_sync([topic])

    def produce(self, topic: str, count: int, size: int = RECORD_BYTES) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5})
        errors: list[object] = []
        for _ in range(count):
            producer.produce(topic, b"x" * size, on_delivery=lambda error, _: errors.append(error))
            producer.poll(0)
        assert producer.flush(60) == 0
        assert errors == [None] * count

    def metric(self, node_id: int, name: str, **labels: str) -> float:
        url = f"http://127.0.0.1:{self.metrics_ports[node_id]}/metrics"
        with urllib.request.urlopen(url, timeout=20) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@pytest.fixture
def racks(request, tmp_path):
    try:
        cluster = Racks(tmp_path, getattr(request, "param", ODRADEK))
    except Missing as reason:
        pytest.skip(str(reason))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


class Reader:
    """A librdkafka consumer that counts the bytes that it has received from each broker."""

    def __init__(self, cluster: Cluster, rack: str) -> None:
        self.received: dict[int, int] = {}
        self.values = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "readers",
                "client.rack": rack,
                "statistics.interval.ms": 50,
                "stats_cb": self._on_statistics,
                "check.crcs": True,
            }
        )
        self._consumer.assign([Partition(TOPIC, 0, 0)])

    def _on_statistics(self, text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            self.received[broker["nodeid"]] = broker["rxbytes"]

    def read(self, count: int) -> None:
        """Read until there are `count` records; the time limit of the test ends the wait."""
        while self.values < count:
            record = self._consumer.poll(0.2)
            if record is not None:
                assert record.error() is None, record.error()
                self.values += 1
        known = dict(self.received)
        while self.received == known:
            assert self._consumer.poll(0.05) is None

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("racks", [ODRADEK, APACHE], indirect=True)
def test_librdkafka_reads_from_the_replica_in_its_rack(racks: Racks) -> None:
    racks.create(TOPIC, 1, 2, 3)
    racks.produce(TOPIC, RECORDS)
    total = RECORDS * RECORD_BYTES
    reader = Reader(racks, "rack2")
    try:
        reader.read(RECORDS)
        assert reader.received[2] >= total
        assert reader.received.get(1, 0) < total / 2
        # The leader fails: its successor is in the rack, or names the replica there.
        racks.nodes[1].kill()
        racks.produce(TOPIC, RECORDS)
        reader.read(2 * RECORDS)
        assert reader.received[2] >= 2 * total
    finally:
        reader.close()


@pytest.mark.timeout(300)
def test_the_tools_of_apache_kafka(racks: Racks, tmp_path: Path) -> None:
    racks.create(TOPIC, 1, 2, 3)
    racks.produce(TOPIC, RECORDS)
    with Workbench(racks.nodes[1], tmp_path) as bench:
        _java_consumer(racks, bench)
        _throttled_reassignment(racks, bench)


def _java_consumer(racks: Racks, bench: Workbench) -> None:
    done = bench.tool(
        "consumer.ConsoleConsumer",
        *("--topic", TOPIC, "--from-beginning", "--max-messages", str(RECORDS)),
        *("--command-property", "client.rack=rack3"),
    )
    assert len(done.lines()) >= RECORDS
    name = "kafka_server_brokertopicmetrics_bytesout_total"
    sent = {each: racks.metric(each, name, topic=TOPIC) for each in NODES}
    assert sent[3] >= RECORDS * RECORD_BYTES
    assert sent[1] == sent[2] == 0


def _throttled_reassignment(racks: Racks, bench: Workbench) -> None:
    racks.create("moved", 1, 2)
    racks.produce("moved", 400, 50_000)  # 20 MB: 200 s at 100 KB/s
    plan = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [1, 3]}]}
    path = bench.file("plan.json", json.dumps(plan))

    def reassign(*words: str):
        tool = "reassign.ReassignPartitionsCommand"
        return bench.tool(tool, "--reassignment-json-file", path, *words)

    reassign("--execute", "--throttle", "100000").says("Successfully started")
    reassign("--verify", "--preserve-throttles").says("is still in progress")
    while not racks.metric(3, "kafka_server_followerreplication_byte_rate"):
        time.sleep(0.1)
    reassign("--verify", "--preserve-throttles").says("is still in progress")
    assert racks.metric(1, "kafka_server_replicamanager_reassigningpartitions") == 1
    assert racks.metric(3, "kafka_server_fetcherlagmetrics_consumerlag", topic="moved") > 0
    reassign("--execute", "--additional", "--throttle", "1000000000").says("Successfully started")
    while "is still in progress" in (said := reassign("--verify")).out:
        pass
    said.says("is completed", "Clearing broker-level throttles", "Clearing topic-level throttles")
    racks.wait_until_in_sync(["moved"])
    replicas = racks.metadata("moved").topics[0].partitions[0].replica_nodes
    assert sorted(replicas) == [1, 3]


@pytest.mark.timeout(200)
def test_kafka_reassign_partitions_moves_a_replica_between_directories(tmp_path: Path) -> None:
    directories = [str(tmp_path / each) for each in ("first", "second")]
    with InProcess(topics={"t": 1}, settings={"log.dirs": ",".join(directories)}) as node:
        address = SimpleNamespace(bootstrap=node.bootstrap_servers)
        try:
            bench = Workbench(address, tmp_path)  # type: ignore[arg-type]
        except Missing as reason:
            pytest.skip(str(reason))
        with bench:
            producer = Producer({"bootstrap.servers": node.bootstrap_servers})
            for _ in range(1000):
                producer.produce("t", b"x" * 1000)
            assert producer.flush(60) == 0

            def place() -> str:
                said = bench.tool("LogDirsCommand", "--describe", "--topic-list", "t")
                (facts,) = json.loads(said.find(r"^\{.*\}$")[0])["brokers"]
                (found,) = (each["logDir"] for each in facts["logDirs"] if each["partitions"])
                return str(found)

            before = place()
            (other,) = {*directories} - {before}
            moved = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [other]}
            path = bench.file("plan.json", json.dumps({"version": 1, "partitions": [moved]}))

            def reassign(*words: str):
                tool = "reassign.ReassignPartitionsCommand"
                return bench.tool(tool, "--reassignment-json-file", path, *words)

            reassign("--execute").says("Successfully started moving log directory")
            while "is still in progress" in (said := reassign("--verify")).out:
                pass
            said.says("completed successfully")
            assert place() == other
            reader = Consumer(
                {
                    "bootstrap.servers": node.bootstrap_servers,
                    "group.id": "g",
                    "enable.partition.eof": True,
                }
            )
            reader.assign([Partition("t", 0, 0)])
            values = 0
            while (record := reader.poll(1)) is None or record.error() is None:
                values += record is not None
            reader.close()
            assert values == 1000
