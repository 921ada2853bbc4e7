"""Restarts the nodes of a cluster one after another under load, as an upgrade does.

Three nodes are brokers and controllers. Each is stopped with SIGTERM, and started when the clients
have made progress without it. The next node is stopped when all replicas are in sync again.
`fault_loop` describes the load of librdkafka. `jobs/SteadyJob.java` is the load of Java. A client
that reports an error to its application fails the test. What clients handle themselves is no error,
such as NOT_LEADER_OR_FOLLOWER, or the end of a connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from compat.lab.cluster import Cluster, Member
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic
from tests.crash.fault_loop import PARTITIONS, PATIENCE_SECONDS, TOPIC, FaultLoop
from tests.support.child import Child

from odradek.config.properties import format_properties

NODE_IDS = (1, 2, 3)
STEADY = "steady"
JAVA_TOPICS = (STEADY, f"{STEADY}-transactions")
TOPICS = (TOPIC, *JAVA_TOPICS, "__consumer_offsets", "__transaction_state")


class SteadyJob:
    """The process of the Java clients."""

    def __init__(self, command: Sequence[str], settings: Path, log: Path) -> None:
        """`settings` is a .properties file with the settings that all clients have."""
        self.errors: list[str] = []
        self.acknowledged = self.committed = 0
        self.is_complete = False
        words = [*command, str(settings), STEADY]
        self._process = Child(words, output=log, talks=True, hears=True)
        self._reader = threading.Thread(target=self._read, name="steady")
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.lines():
            word, _, rest = line.strip().partition(" ")
            if word == "error":
                self.errors.append(f"Java: {rest}")
            elif word == "acknowledged":
                self.acknowledged = int(rest)
            elif word == "committed":
                self.committed = int(rest)
            elif word == "end":
                self.acknowledged = int(rest)
                self.is_complete = True

    def wait_for_progress(self) -> None:
        """Wait until more records are acknowledged, and more transactions committed."""
        acknowledged, committed = self.acknowledged, self.committed
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.acknowledged <= acknowledged or self.committed <= committed:
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, "the Java clients make no progress"
            time.sleep(0.02)

    def finish(self) -> None:
        """End the load, and wait until the consumers have read everything."""
        try:
            code = self._process.finish(PATIENCE_SECONDS)
        except AssertionError as error:
            self.errors.append(f"Java: the consumers have not read everything: {error}")
            self._process.kill()
            code = self._process.wait()
        self._reader.join()
        self._process.close()
        if not self.is_complete:
            self.errors.append(f"Java: the process has ended with {code}")


class RollingLoop(FaultLoop):
    """Each fault is the restart of the next node. A subclass may change the node in between."""

    topic_settings = MappingProxyType({"min.insync.replicas": "2"})
    replication_factor = 3
    pause_seconds = 0.003

    def __init__(
        self, directory: Path, seed: int, java: Sequence[str], cluster: Cluster | None = None
    ) -> None:
        """`java` is the command of the Java clients. `cluster` is one of Odradek by default."""
        self.cluster = cluster or Cluster(directory, dict.fromkeys(NODE_IDS, Member()))
        super().__init__(self.cluster, seed)
        self._java_command = java
        self._log = directory / "steady.log"
        self._waiting = list(NODE_IDS)
        self.job: SteadyJob | None = None

    @property
    def java_clients(self) -> dict[str, str]:
        """As `clients`, for Java."""
        return self.clients

    def _create_topic(self) -> None:
        super()._create_topic()
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        topics = [
            NewTopic(name, PARTITIONS, self.replication_factor, config=dict(self.topic_settings))
            for name in JAVA_TOPICS
        ]
        for each in admin.create_topics(topics).values():
            each.result(30)
        settings = self._log.with_suffix(".properties")
        settings.write_bytes(format_properties(self.java_clients))
        self.job = SteadyJob(self._java_command, settings, self._log)
        self.job.wait_for_progress()

    def _is_allowed(self, error: KafkaError) -> bool:
        return False

    def _disturb(self) -> None:
        node_id = self._waiting.pop(0)
        self._wait_for_all()
        self.cluster.nodes[node_id].stop()
        self._wait_for_all()
        self._change(node_id)
        self.cluster.start(node_id)
        self.cluster.wait_until_in_sync(TOPICS)

    def _change(self, node_id: int) -> None:
        """Change a node that is stopped."""

    def _wait_for_all(self) -> None:
        assert self.job is not None
        self.job.wait_for_progress()
        self._wait_for_progress()

    def _compare(self) -> None:
        if self.job is not None:
            self.job.finish()
            self.report.errors += self.job.errors
        super()._compare()
