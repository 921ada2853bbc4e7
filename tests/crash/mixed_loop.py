"""A node of one kind joins three nodes of the other kind under load, leads, fails, and leaves.

Three nodes are brokers and controllers. The fourth node is only a broker. The steps are done one
after another while clients produce and consume: the broker joins; it gets a replica of each
partition; it becomes the leader of all; it is stopped and started; it is killed and started; `odradek
cluster drain` moves its replicas away; it is stopped, and `odradek cluster remove` removes it.
`fault_loop` describes the load and the checks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from compat.lab.cluster import Cluster, Member
from tests.crash.fault_loop import PARTITIONS, TOPIC, FaultLoop

GUEST = 4
TOPICS = (TOPIC, "__consumer_offsets")


class MixedLoop(FaultLoop):
    """Three nodes of the program `hosts`, and a broker of the program `guest`."""

    topic_settings = MappingProxyType({"min.insync.replicas": "2"})
    replication_factor = 3
    pause_seconds = 0.002

    def __init__(self, directory: Path, seed: int, hosts: str, guest: str) -> None:
        members = {each: Member(hosts) for each in (1, 2, 3)}
        self.cluster = Cluster(directory, {**members, GUEST: Member(guest, "broker")})
        super().__init__(_First(self.cluster), seed)
        self._steps: list[Callable[[], None]] = [
            self._join,
            self._lead,
            self._stop,
            self._kill,
            self._leave,
        ]
        self.count = len(self._steps)
        self.led: list[int] = []
        """The partitions that the guest has led."""

    def _disturb(self) -> None:
        self._steps.pop(0)()

    def _join(self) -> None:
        self.cluster.start(GUEST)
        self.cluster.reassign(TOPIC, dict.fromkeys(range(PARTITIONS), (GUEST, 1, 2)))

    def _lead(self) -> None:
        self.cluster.elect_preferred_leaders(TOPIC, range(PARTITIONS))
        leaders = self.cluster.leaders(TOPIC)
        self.led = [index for index, leader in leaders.items() if leader == GUEST]

    def _stop(self) -> None:
        self.cluster.nodes[GUEST].stop()
        self._wait_for_progress()
        self._return()

    def _kill(self) -> None:
        self.cluster.nodes[GUEST].kill()
        self._wait_for_progress()
        self._return()

    def _return(self) -> None:
        self.cluster.start(GUEST)
        self.cluster.wait_until_in_sync(TOPICS)
        self.cluster.elect_preferred_leaders(TOPIC, range(PARTITIONS))

    def _leave(self) -> None:
        self.cluster.wait_until_not_fenced(1, 2, 3, GUEST)  # each gets replicas
        self._run("drain")
        self.cluster.nodes[GUEST].stop()
        self.cluster.wait_until_fenced(GUEST)
        self._run("remove")

    def _run(self, command: str) -> None:
        """Run a command of `odradek cluster` for the guest."""
        words = [sys.executable, "-m", "odradek", "cluster", command, str(GUEST)]
        words += ["-b", self.cluster.bootstrap]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class _First:
    """The cluster, which starts without the guest."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        self._cluster.start(1, 2, 3)

    def close(self) -> None:
        self._cluster.close()

    def last_words(self) -> str:
        return self._cluster.last_words()
