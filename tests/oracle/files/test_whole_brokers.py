"""Apache Kafka and Odradek alternately start on one data directory, without loss of data.

After each start the clients continue: producers with their sequence numbers, open transactions,
members of groups. What clients can see must be the same before a stop and after the start of the
other broker. Two starts end with a clean shutdown, the next two with `kill -9`. ODRADEK_FILE_TURNS
sets the number of starts; one more start only compares. The comparison omits what a restart may
change: leader epochs grow at each start, and only Apache Kafka serves requests about quotas and share
groups.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
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

STARTS = int(os.environ.get("ODRADEK_FILE_TURNS", "4"))
ORDERS = [True, False] if STARTS > 4 else [run_seed() % 2 == 0]
"""Whether Odradek starts first. A short run tests one order, which depends on the seed."""
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
"""Number of clean stops in each four stops. The others are `kill -9`."""
CLEAN_EXITS = (0, 143)
SUFFIX = re.compile(r"-\d+(\.[0-9a-f]{32}-delete)?$")

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(120 + 60 * STARTS)]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until `is_so` returns True."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(PAUSE_SECONDS)


class Directory:
    """A data directory and the clients that use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.work = Work()

    def broker(self, is_ours: bool) -> Broker:
        """Return a broker that is not started."""
        kind = OdradekNode if is_ours else NextApacheKafka
        return kind(settings=SETTINGS, directory=self._path)

    def settle(self, client: Client) -> None:
        """Wait until all background work is done, so that a stop does not interrupt it."""
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
        """Return the base offsets of the segments of partition 0."""
        return sorted(int(e.stem) for e in (self._path / "data" / f"{topic}-0").glob("*.log"))

    def _is_trimmed(self) -> bool:
        """Return whether only the first segment has records before the log start offset."""
        return all(e > self.work.log_start_offset for e in self._base_offsets(TRIMMED)[1:])

    def _is_compacted(self, client: Client) -> bool:
        """Return whether each key is in the inactive segments at most once."""
        records = shown_records(Observer(client, []).contents(COMPACTED, 0))
        active = self._base_offsets(COMPACTED)[-1]
        keys = [key for offset, key, _ in records if offset < active]
        return len(keys) == len(set(keys))

    def check(self, client: Client) -> None:
        """Check that all acknowledged records are present."""
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
@pytest.mark.slow("two brokers start several times, one of them Apache Kafka")
def test_brokers_start_alternately(tmp_path: Path, ours_first: bool) -> None:
    directory = Directory(tmp_path)
    before = None
    for start in range(STARTS + 1):
        is_ours = ours_first == (start % 2 == 0)
        try:
            broker = directory.broker(is_ours)
        except Missing as reason:
            pytest.skip(str(reason))
        with broker, closing(Client(broker.port)) as client:
            if before is not None:
                changed = differences(before, directory.work.see(client))
                assert not changed, f"{broker.name}, start {start}:\n" + "\n".join(changed)
            if start == STARTS:
                break
            directory.work.run(client)
            directory.settle(client)
            directory.check(client)
            before = directory.work.see(client)
            if start % 4 < CLEAN_STOPS:
                assert broker.stop() in CLEAN_EXITS
            else:
                broker.kill()
