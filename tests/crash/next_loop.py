"""Quorums of Odradek and Apache Kafka 4.3 or 4.4 under load, whose nodes are killed (`fault_loop`).

Three nodes are brokers and voters. In `KillLoop` one of them runs on a directory that the other
program has formatted. In `LevelLoop` the cluster begins with the level of Apache Kafka 4.0, and
Apache Kafka's command raises `metadata.version` level by level; after each step a node is killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.cluster import (
    APACHE,
    ODRADEK,
    QUICK_SETTINGS,
    ApacheMember,
    Cluster,
    Member,
    Node,
    OdradekMember,
)
from compat.lab.maven import next_jars
from tests.crash.fault_loop import TOPIC, FaultLoop
from tests.support.waiting import until

from odradek.client.admin.cluster import features
from odradek.client.admin.topics import list_topics
from odradek.client.admin.users import describe_users
from odradek.client.cluster import Cluster as Client

NEXT = "next"
NODE_IDS = (1, 2, 3)
ALICE = "SCRAM-SHA-256=[name=alice,password=secret]"
OLD_RELEASE = "4.0-IV3"
OLD_LEVEL = 25
LEVELS = {APACHE: 30, NEXT: 33}
"""The highest level of `metadata.version` of each release of Apache Kafka."""
TOPICS = (TOPIC, "__consumer_offsets")


class OursWithAlice(OdradekMember):
    """Formats with a user."""

    credentials = (ALICE,)


class TheirsWithAlice(ApacheMember):
    """Apache Kafka 4.3. It formats with a user."""

    credentials = (ALICE,)


class NextWithAlice(TheirsWithAlice):
    """Apache Kafka 4.4 with its default features. It formats with a user."""

    name = NextApacheKafka.name
    features = ()
    find_jars = staticmethod(next_jars)


KINDS: dict[str, type[Node]] = {
    ODRADEK: OursWithAlice,
    NEXT: NextWithAlice,
    APACHE: TheirsWithAlice,
}
Shown = tuple[dict[str, int], list[str], list[str]]


def shown(node: Node) -> Shown:
    """Return the finalized features, the users and the topics that a broker shows."""
    with Client(node.bootstrap) as client:
        levels = {each.name: each.level for each in features(client.any()) if each.level}
        levels.pop("kraft.version", None)
        users = list(describe_users(client))
        return levels, users, [each.name for each in list_topics(client)]


class _Loop(FaultLoop):
    topic_settings = MappingProxyType({"min.insync.replicas": "2"})
    replication_factor = 3
    pause_seconds = 0.002

    def __init__(self, directory: Path, seed: int, programs: Sequence[str]) -> None:
        members = {
            number: Member(program) for number, program in zip(NODE_IDS, programs, strict=True)
        }
        self.cluster = Cluster(directory, members, QUICK_SETTINGS, KINDS)
        self.kills = 0
        super().__init__(self.cluster, seed)

    def _kill(self, node_id: int) -> None:
        """Kill a node while clients go on, and start it again. All nodes show the same afterwards."""
        before = shown(self.cluster.nodes[node_id])
        self.cluster.nodes[node_id].kill()
        self._wait_for_progress()
        self.cluster.start(node_id)
        self.cluster.wait_until_in_sync(TOPICS)
        self.kills += 1
        for each in self.cluster.nodes.values():
            until(lambda node=each: shown(node) == before)


class KillLoop(_Loop):
    """One node of each program, and one whose directory the other program has formatted."""

    def __init__(self, directory: Path, seed: int, formats: str, runs: str) -> None:
        super().__init__(directory, seed, (formats, ODRADEK, NEXT))
        self.cluster.nodes[1].prepare()
        self.cluster.replace(1, runs)

    def _disturb(self) -> None:
        self._kill(NODE_IDS[self.kills % len(NODE_IDS)])


class LevelLoop(_Loop):
    """Each fault raises the level by one, and then kills a node. The last one tries to lower it."""

    def __init__(
        self, directory: Path, seed: int, programs: Sequence[str], command: Sequence[str]
    ) -> None:
        """`command` is that of `kafka-features.sh`."""
        super().__init__(directory, seed, programs)
        self._command = command
        for node in self.cluster.nodes.values():
            node.release = OLD_RELEASE
            if isinstance(node, ApacheMember):
                node.features = ()
        last = min(LEVELS.get(each, LEVELS[NEXT]) for each in programs)
        self.last = last
        self._steps = [("metadata.version", level) for level in range(OLD_LEVEL + 1, last + 1)]
        self.refused: dict[str, str] = {}
        """What the command said when a level was lowered, by the program of the active controller."""
        self.count = len(self._steps) + 1

    def change(self, kind: str, feature: str, level: int) -> str:
        """Run the command, and return what it printed."""
        words = ["--bootstrap-server", self.cluster.bootstrap, kind]
        words += ["--feature", f"{feature}={level}"]
        done = subprocess.run(
            [*self._command, *words], capture_output=True, text=True, check=False, timeout=120
        )
        return done.stdout + done.stderr

    def _disturb(self) -> None:
        if self._steps:
            feature, level = self._steps.pop(0)
            said = self.change("upgrade", feature, level)
            assert f"{feature} was upgraded to {level}" in said, said
            for each in self.cluster.nodes.values():
                until(lambda node=each: shown(node)[0].get(feature) == level)
            self._kill(self._random.choice(NODE_IDS))
            return
        for _ in range(30):  # until each program has had the active controller
            active = self.cluster.active_controller()
            program = self.cluster.members[active].program
            said = self.change("downgrade", "metadata.version", OLD_LEVEL)
            assert self.refused.setdefault(program, said) == said
            if len(self.refused) == len({each.program for each in self.cluster.members.values()}):
                return
            self._kill(active)
