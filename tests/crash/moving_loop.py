"""Kills a node while partitions move between its log directories.

Before each kill all partitions begin to move to a random directory, and the kill follows after a
random time. After each kill the directories are compared with what Apache Kafka could start with:
each partition has one log, or only a future log.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient
from tests.crash.fault_loop import PARTITIONS, TOPIC, FaultLoop
from tests.crash.kill_loop import KillLoop

from odradek.log.names import DELETE_DIRECTORY, FUTURE_DIRECTORY, parse_directory
from odradek.wire.generated.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.generated.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse

DELAY_SECONDS_MAX = 0.1


class TwoDirectories(OdradekNode):
    """A node with two log directories."""

    @property
    def paths(self) -> list[Path]:
        """The log directories."""
        return [self.data, self.directory / "second"]

    def command(self) -> Sequence[str]:
        """Return `odradek serve` with both directories."""
        words = list(super().command())
        position = words.index("--data")
        directories = ",".join(map(str, self.paths))
        words[position : position + 2] = ["--override", f"log.dirs={directories}"]
        return words

    def logs(self, topic: str) -> dict[int, Counter[str]]:
        """Return how many directories of each kind the partitions have, by index."""
        found: dict[int, Counter[str]] = {}
        for path in self.paths:
            for each in path.iterdir():
                parsed = parse_directory(each.name)
                if parsed is not None and parsed[0].topic == topic:
                    found.setdefault(parsed[0].partition, Counter())[parsed[1]] += 1
        return found


def move(port: int, path: Path, topic: str, indexes: Sequence[int]) -> list[int]:
    """Begin to move replicas to a directory. Return the errors."""
    named = AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[named])])
    with WireClient(port) as wire:
        answer = wire.call("AlterReplicaLogDirs", 2, request, AlterReplicaLogDirsResponse)
    return [each.error_code for each in answer.results[0].partitions]


class MovingLoop(KillLoop):
    """Kills the node during moves. See the module."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.node: TwoDirectories = TwoDirectories(directory=directory)
        FaultLoop.__init__(self, self.node, seed)
        self.left_behind: Counter[str] = Counter()
        """Number of partitions that a kill has left with a log, with both, or with a future log."""

    def _wait_before_fault(self) -> None:
        for path in self._random.sample(self.node.paths, 2):
            assert move(self.node.port, path, TOPIC, range(PARTITIONS)) == [0] * PARTITIONS
            time.sleep(self._random.uniform(0.0, DELAY_SECONDS_MAX))

    def _on_killed(self) -> None:
        for index, kinds in self.node.logs(TOPIC).items():
            del kinds[DELETE_DIRECTORY]
            if kinds not in ({"": 1}, {"": 1, FUTURE_DIRECTORY: 1}, {FUTURE_DIRECTORY: 1}):
                self.report.errors.append(f"partition {index} has these logs: {kinds}")
            self.left_behind[" and ".join(sorted(each or "log" for each in kinds))] += 1
