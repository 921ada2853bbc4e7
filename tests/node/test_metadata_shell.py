"""Apache Kafka's metadata shell reads a snapshot that a node has written."""

import subprocess

import pytest
from compat.lab import java
from compat.lab.cluster import MIXED_RELEASE
from compat.lab.maven import KAFKA_VERSION, jars
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.java, pytest.mark.cluster]

SHELL = (
    f"org.apache.kafka:kafka-shell:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)

ATTEMPTS = 10
TOPIC = b"\x03t0"
"""The name of the first topic as its record has it."""


@pytest.fixture(scope="module")
def command():
    try:
        found = jars(f"kafka-shell-{KAFKA_VERSION}", SHELL)
        return java.command("org.apache.kafka.shell.MetadataShell", found)
    except Missing as reason:
        pytest.skip(str(reason))


def test_a_snapshot_is_shown(tmp_path, command):
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    node = OdradekNode(directory=tmp_path, settings=settings)
    # There is no shell of 4.4 on Maven Central, and that of 4.3 knows no later levels.
    words = [node.program, "format", "--data", node.data, "--release-version", MIXED_RELEASE]
    subprocess.run(words, check=True, capture_output=True)
    node.start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        number = 0
        newest = None
        while newest is None or TOPIC not in newest.read_bytes():
            admin.create_topics([NewTopic(f"t{number}", 3, 1)])[f"t{number}"].result(30)
            number += 1
            newest = max(tmp_path.rglob("__cluster_metadata-0/*.checkpoint"), default=None)
    finally:
        node.stop()
    newest = max(tmp_path.rglob("__cluster_metadata-0/*.checkpoint"))

    def shows(expected, *words):
        """Whether the shell prints the words `expected`.

        It may run a command before it has published what it has read. Then its image is empty.
        """
        for _ in range(ATTEMPTS):
            finished = subprocess.run(
                [*command, "--snapshot", str(newest), *words],
                capture_output=True,
                text=True,
                check=True,
            )
            if all(each in finished.stdout for each in expected):
                return True
        return False

    assert shows({"t0"}, "ls", "/image/topics/byName")
    assert shows({"replicas=[1]"}, "cat", "/image/topics/byName/t0/2")
    assert shows({"brokers", "controllers"}, "ls", "/image/cluster")
