"""Moves a cluster of Apache Kafka to Odradek in place and back, under load, as docs/migration.md says.

Three nodes of Apache Kafka are brokers and controllers, with the default features. First
`kafka-features.sh` lowers the features that Odradek does not support. Then each node is stopped, and
the other program is started with the same configuration and the same data. `rolling_loop` describes
the load and its checks.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat.lab.cluster import APACHE, ODRADEK, ApacheMember, Cluster, Member, OdradekMember
from tests.crash.rolling_loop import NODE_IDS, RollingLoop

LOWERED = ("streams.version=0",)


class DefaultApacheMember(ApacheMember):
    """A node of Apache Kafka, formatted with the default features."""

    features: Sequence[str] = ()


class MigrationLoop(RollingLoop):
    """Each fault replaces the next node."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        java: Sequence[str],
        features_tool: Sequence[str],
        cluster: Cluster | None = None,
    ) -> None:
        """`features_tool` is the command of `kafka-features.sh`."""
        kinds = {APACHE: DefaultApacheMember, ODRADEK: OdradekMember}
        members = dict.fromkeys(NODE_IDS, Member(APACHE))
        super().__init__(directory, seed, java, cluster or Cluster(directory, members, kinds=kinds))
        self._features_tool = features_tool
        self._waiting = [*NODE_IDS, *NODE_IDS]
        self.count = len(self._waiting)
        self.programs: list[list[str]] = []
        """The programs of all nodes after each step."""

    def _create_topic(self) -> None:
        super()._create_topic()
        words = [*self._features_tool, "--bootstrap-server", self.cluster.bootstrap, "downgrade"]
        words += [word for each in LOWERED for word in ("--feature", each)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _change(self, node_id: int) -> None:
        before = self.cluster.members[node_id].program
        self.cluster.replace(node_id, ODRADEK if before == APACHE else APACHE)
        self.programs.append([each.program for each in self.cluster.members.values()])
