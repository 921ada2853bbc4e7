"""Disturbs the nodes of a cluster of three one after another under load.

Each node is a broker and a controller. The topic has three replicas, and `min.insync.replicas` is 2.
A fault is one of these, on a random node: SIGKILL, SIGTERM, or SIGSTOP for longer than a session.
The next fault waits until all replicas are in sync. `fault_loop` describes the load and the checks.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from types import MappingProxyType

from compat.lab.cluster import Cluster, Member
from tests.crash.fault_loop import TOPIC, FaultLoop

NODE_IDS = (1, 2, 3)
TOPICS = (TOPIC, "__consumer_offsets")
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
        self._choice = random.Random(seed + 1)

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
