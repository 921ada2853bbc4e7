"""Disturbs the nodes of a cluster of three one after another under load.

Each node is a broker and a controller. The topic has three replicas, and `min.insync.replicas` is 2.
A fault is one of these, on a random node: SIGKILL, SIGTERM, or SIGSTOP for longer than a session.
The next fault waits until all replicas are in sync. `fault_loop` describes the load and the checks.
In addition, jobs of three clients copy the topic in transactions (`copy_jobs`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from types import MappingProxyType

from compat.lab.cluster import Cluster, Member
from confluent_kafka.admin import AdminClient, NewTopic
from tests.crash.copy_jobs import CopyJobs, all_commands
from tests.crash.fault_loop import PARTITIONS, PATIENCE_SECONDS, TOPIC, FaultLoop

NODE_IDS = (1, 2, 3)
TOPICS = (TOPIC, "__consumer_offsets", "__transaction_state")
DOWN_SECONDS_MAX = 5.0
PAUSE_SECONDS = 4.0
"""More than `broker.session.timeout.ms` of the cluster."""


class ClusterLoop(FaultLoop):
    """Three nodes with both roles."""

    topic_settings = MappingProxyType({"min.insync.replicas": "2"})
    replication_factor = 3
    pause_seconds = 0.001

    def __init__(self, directory: Path, seed: int) -> None:
        self.cluster = Cluster(directory, dict.fromkeys(NODE_IDS, Member()))
        super().__init__(self.cluster, seed)
        self.faults: Counter[str] = Counter()
        """The number of faults of each kind."""
        self.jobs = CopyJobs(all_commands(), directory, TOPIC, PARTITIONS)
        self._choice = random.Random(seed + 1)

    def _create_topic(self) -> None:
        super()._create_topic()
        admin = AdminClient({"bootstrap.servers": self.servers.bootstrap})
        targets = [
            NewTopic(each, PARTITIONS, self.replication_factor, config=dict(self.topic_settings))
            for each in self.jobs.targets()
        ]
        for created in admin.create_topics(targets).values():
            created.result(30)
        self.jobs.start(self.servers.bootstrap)

    def _wait_for_progress(self) -> None:
        before = self.jobs.copied()
        super()._wait_for_progress()
        self._wait_for_jobs({name: count + 1 for name, count in before.items()})

    def _wait_for_consumer(self) -> None:
        super()._wait_for_consumer()
        self._wait_for_jobs(dict.fromkeys(self.jobs.copied(), sum(self.report.sent)))

    def _wait_for_jobs(self, wanted: dict[str, int]) -> None:
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while any(count < wanted[name] for name, count in self.jobs.copied().items()):
            if time.monotonic() > deadline:
                text = f"the jobs copied {self.jobs.copied()}, not {wanted}"
                self.report.errors.append(f"{text}: {self.jobs.last_words()}")
                return
            time.sleep(0.05)

    def _compare(self) -> None:
        self.jobs.stop()
        self.report.errors.extend(self.jobs.errors)
        super()._compare()

    def _disturb(self) -> None:
        node_id = self._choice.choice(NODE_IDS)
        kind = self._choice.choice(("kill", "stop", "pause"))
        node = self.cluster.nodes[node_id]
        self.faults[kind] += 1
        if kind == "pause":
            node.pause()
            time.sleep(PAUSE_SECONDS)
            node.resume()
        else:
            if kind == "kill":
                node.kill()
            else:
                node.stop()
            time.sleep(self._choice.uniform(0.0, DOWN_SECONDS_MAX))
            self.cluster.start(node_id)
        self.cluster.wait_until_in_sync(TOPICS)
