"""Apache Kafka and we take turns on one data directory; each finds all that the other has stored.

In each turn clients go on where they were: producers with their sequences, open transactions, members
of groups. What a client can see before the stop has to be the same after the start of the other. The
first two turns end with a clean shutdown, the next two with `kill -9`; after the last turn the next broker
only looks. ODRADEK_FILE_TURNS says how many turns there are. Nothing that a restart may change is looked
at: leader epochs grow at each start, and requests about quotas and share groups are Apache Kafka's alone.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.oracle.files.observation import Observer, differences, shown_records
from tests.oracle.files.protocol import Client
from tests.oracle.files.work import (
    ABORTS,
    COMMITS,
    COMPACTED,
    FENCED,
    PLAIN,
    PLAIN_PARTITIONS,
    RESUMED,
    SEQUENCED,
    TRIMMED,
    Work,
)
from tests.support.run_seed import run_seed

from odradek.client.offsets import READ_COMMITTED

TURNS = int(os.environ.get("ODRADEK_FILE_TURNS", "4"))
ORDERS = [True, False] if TURNS > 4 else [run_seed() % 2 == 0]
"""Whether our broker is first. A short run tries one order, which depends on its seed."""
WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": "300000",
    "group.max.session.timeout.ms": "300000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "100",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.segment.delete.delay.ms": "500",
    "transaction.partition.verification.enable": "true",
}
CLEAN_STOPS = 2
"""Of four; the others are `kill -9`."""
CLEAN_EXITS = (0, 143)
SUFFIX = re.compile(r"-\d+(\.[0-9a-f]{32}-delete)?$")

pytestmark = [pytest.mark.java, pytest.mark.timeout(120 + 60 * TURNS)]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for what a broker does in its own time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(PAUSE_SECONDS)


class Directory:
    """A data directory, and the clients that work on it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.work = Work()

    def broker(self, is_ours: bool) -> Broker:
        """The broker of the next turn, not started."""
        kind = OdradekNode if is_ours else BriefApacheKafka
        return kind(settings=SETTINGS, directory=self._path)

    def settle(self, client: Client) -> None:
        """Wait until nothing happens in the background that a stop would leave unfinished."""
        checkpoint = self._path / "data" / "log-start-offset-checkpoint"
        line = f"{TRIMMED} 0 {self.work.log_start_offset}"
        wait_until(
            lambda: checkpoint.exists() and line in checkpoint.read_text().splitlines(),
            "the log start offset is not in its checkpoint",
        )
        wait_until(self._is_trimmed, "segments before the log start offset are left")
        wait_until(lambda: self._is_compacted(client), "the compacted topic is not clean")
        wait_until(lambda: not self._deleted(), "directories of deleted topics are left")

    def _deleted(self) -> list[str]:
        names = (each.name for each in (self._path / "data").iterdir())
        return [name for name in names if SUFFIX.sub("", name) in self.work.deleted]

    def _base_offsets(self, topic: str) -> list[int]:
        """Of the segments of partition 0."""
        return sorted(int(e.stem) for e in (self._path / "data" / f"{topic}-0").glob("*.log"))

    def _is_trimmed(self) -> bool:
        """Whether only the first segment has records before the log start offset."""
        return all(e > self.work.log_start_offset for e in self._base_offsets(TRIMMED)[1:])

    def _is_compacted(self, client: Client) -> bool:
        """Whether each key is there once before the active segment."""
        records = shown_records(Observer(client, []).contents(COMPACTED, 0))
        active = self._base_offsets(COMPACTED)[-1]
        keys = [key for offset, key, _ in records if offset < active]
        return len(keys) == len(set(keys))

    def check(self, client: Client) -> None:
        """What the clients know that they have written is there."""
        observer = Observer(client, [])
        partitions = [observer.contents(PLAIN, index) for index in range(PLAIN_PARTITIONS)]
        assert sum(len(shown_records(each)) for each in partitions) == self.work.produced
        latest = {key: value for _, key, value in shown_records(observer.contents(COMPACTED, 0))}
        assert latest == self.work.latest
        visible = [
            value
            for index in range(2)
            for _, _, value in shown_records(observer.contents(SEQUENCED, index, READ_COMMITTED))
            if value is not None
        ]
        names = (COMMITS, ABORTS, RESUMED, FENCED)
        transactional = [each for each in visible if each.startswith(tuple(map(str.encode, names)))]
        assert sorted(transactional) == sorted(self.work.committed)


@pytest.mark.parametrize(
    "ours_first", ORDERS, ids=lambda ours: "ours-first" if ours else "apache-kafka-first"
)
def test_whole_brokers_take_turns(tmp_path: Path, ours_first: bool) -> None:
    directory = Directory(tmp_path)
    before = None
    for turn in range(TURNS + 1):
        is_ours = ours_first == (turn % 2 == 0)
        try:
            broker = directory.broker(is_ours)
        except Missing as reason:
            pytest.skip(str(reason))
        with broker, closing(Client(broker.port)) as client:
            if before is not None:
                changed = differences(before, directory.work.see(client))
                assert not changed, f"{broker.name}, turn {turn}:\n" + "\n".join(changed)
            if turn == TURNS:
                break
            directory.work.turn(client)
            directory.settle(client)
            directory.check(client)
            before = directory.work.see(client)
            if turn % 4 < CLEAN_STOPS:
                assert broker.stop() in CLEAN_EXITS
            else:
                broker.kill()
