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
        seen = []
        number = 0
        while len(seen) < 3:  # the first two may have been begun before t0 was created
            admin.create_topics([NewTopic(f"t{number}", 3, 1)])[f"t{number}"].result(30)
            number += 1
            found = sorted(tmp_path.rglob("__cluster_metadata-0/*.checkpoint"))
            seen += [each for each in found[-1:] if each not in seen]
    finally:
        node.stop()
    newest = max(tmp_path.rglob("__cluster_metadata-0/*.checkpoint"))

    def shown(*words):
        """Return what the shell prints.

        It may run a command before it has published what it has read. Then its image is empty.
        """
        for _ in range(ATTEMPTS):
            finished = subprocess.run(
                [*command, "--snapshot", str(newest), *words],
                capture_output=True,
                text=True,
                check=True,
            )
            if "No such file or directory" not in finished.stdout:
                break
        return finished.stdout

    assert "t0" in shown("ls", "/image/topics/byName").split()
    assert "replicas=[1]" in shown("cat", "/image/topics/byName/t0/2")
    assert {"brokers", "controllers"} <= set(shown("ls", "/image/cluster").split())
