"""Partitions for tests: a log in a directory, led by node 1, whose flushes the test ends."""

from __future__ import annotations

from pathlib import Path

from tests.log.support import TOPIC_ID, LogWorkspace

from odradek.broker.partitions.partition import Partition
from odradek.core.metadata.image import PartitionRegistration
from odradek.log import PartitionLog
from odradek.log.group_commit import Flushed
from odradek.model.topic_partition import TopicPartition
from odradek.testing.files import UnsyncedFileSystem

NODE_ID = 1
LED_HERE = PartitionRegistration((1,), (bytes(16),), (1,), (), (), (), (), 1, 0, 0, 0)


class Flushes:
    """Flushes that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[PartitionLog, int, Flushed]] = []

    def __call__(self, log: PartitionLog, offset: int, flushed: Flushed) -> None:
        self.waiting.append((log, offset, flushed))

    def succeed(self) -> None:
        """End all of them: the logs are on the disk."""
        waiting, self.waiting = self.waiting, []
        for log, _, _ in waiting:
            log.flush()
        for _, _, flushed in waiting:
            flushed(None)

    def fail(self, error: Exception) -> None:
        """End all of them with an error."""
        waiting, self.waiting = self.waiting, []
        for _, _, flushed in waiting:
            flushed(error)


def partition_of(
    path: Path,
    *,
    flushes: Flushes | None = None,
    registration: PartitionRegistration = LED_HERE,
    index: int = 0,
    topic: str = "topic",
    topic_id: bytes = TOPIC_ID,
    **settings: object,
) -> Partition:
    """A partition over a new log; `settings` are those of the topic."""
    log = LogWorkspace(path, UnsyncedFileSystem()).open(TopicPartition(topic, index), **settings)
    log.on_leader_epoch(registration.leader_epoch)
    return Partition(topic, topic_id, index, log, registration, NODE_ID, flushes or Flushes())
