"""The servers of the anomaly tests: one node, or a cluster of three nodes."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Protocol, Self

from compat.lab.cluster import Cluster, Member
from compat.lab.odradek_node import OdradekNode

NODE_IDS = (1, 2, 3)
PAUSE_SECONDS = 0.7
SESSION_PAUSE_SECONDS = 4.0
"""More than the session of a broker of the cluster, so a paused node is fenced."""
DOWN_SECONDS_MAX = 2.0
KILL, PAUSE = "kill", "pause"


class Servers(Protocol):
    """What the clients connect to. Use it in a `with` statement."""

    replication_factor: int
    topic_settings: dict[str, str]

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses for clients."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def disturb(self, kind: str, random: Random) -> None:
        """Kill or pause a node. When it returns, all nodes run."""
        ...


class OneNode:
    """A single node."""

    replication_factor = 1

    def __init__(self) -> None:
        self.topic_settings: dict[str, str] = {}
        self._node = OdradekNode(settings={"group.initial.rebalance.delay.ms": "0"})

    @property
    def bootstrap(self) -> str:
        return self._node.bootstrap

    def __enter__(self) -> Self:
        self._node.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._node.close()

    def disturb(self, kind: str, random: Random) -> None:
        if kind == KILL:
            self._node.kill()
            self._node.start()
        else:
            self._node.pause()
            time.sleep(PAUSE_SECONDS)
            self._node.resume()


class ThreeNodes:
    """Three nodes, each a broker and a controller. The topic has three replicas.

    Another node may be disturbed before all replicas are in sync again.
    """

    replication_factor = len(NODE_IDS)

    def __init__(self, directory: Path) -> None:
        self.topic_settings = {"min.insync.replicas": "2"}
        self._cluster = Cluster(directory, dict.fromkeys(NODE_IDS, Member()))

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def disturb(self, kind: str, random: Random) -> None:
        node_id = random.choice(NODE_IDS)
        node = self._cluster.nodes[node_id]
        if kind == KILL:
            node.kill()
            time.sleep(random.uniform(0.0, DOWN_SECONDS_MAX))
            self._cluster.start(node_id)
        else:
            node.pause()
            time.sleep(random.choice((PAUSE_SECONDS, SESSION_PAUSE_SECONDS)))
            node.resume()
