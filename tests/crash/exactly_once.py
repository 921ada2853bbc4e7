"""Kills a job that copies numbers in transactions, or the node, and checks the output.

Consecutive numbers are written to each partition of the source. The job reads them in a group and
writes them to the same partition of the target, with its offsets in the same transaction. The job or
the node is killed with SIGKILL repeatedly. At the end a read_committed consumer must read every
number once and in order from each partition of the target.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

from compat.lab.odradek_node import OdradekNode
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import progress
from tests.support.child import Child

SOURCE, TARGET, NAME = "source", "target", "job"
PARTITIONS = 2
AHEAD = 600
"""How many more numbers each partition of the source has than the target."""
COPIED_BETWEEN_KILLS = 200
PATIENCE_SECONDS = 60.0


class ExactlyOnce:
    """The node, the job, and the contents of source and target."""

    def __init__(self, directory: Path, command: Sequence[str], seed: int) -> None:
        self.node = OdradekNode(
            directory=directory, settings={"group.initial.rebalance.delay.ms": "0"}
        )
        self.errors: list[str] = []
        self.written = [0] * PARTITIONS
        self.copied: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.job_kills = self.node_kills = self.job_starts = 0
        self._command = command
        self._log = directory / "job.log"
        self._random = random.Random(seed)
        self._job: Child | None = None

    def run(self, kills: int) -> None:
        """Kill the job or the node `kills` times, then let the job finish."""
        try:
            self.node.start()
            admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
            topics = [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]
            for made in admin.create_topics(topics).values():
                made.result(30)
            self._producer = Producer(self._settings({"enable.idempotence": True}))
            self._consumer = Consumer(
                self._settings(
                    {
                        "group.id": "looks",
                        "isolation.level": "read_committed",
                        "enable.auto.commit": False,
                    }
                )
            )
            self._consumer.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])
            for done in range(kills):
                progress.report(done, kills, "kills")
                self._progress(self.copied_count() + COPIED_BETWEEN_KILLS, feeding=True)
                self._progress_for(self._random.uniform(0.0, 0.5))
                self._kill()
            self._progress(sum(self.written), feeding=False)
            self._progress_for(0.5)  # no further record may arrive
            self._consumer.close()
        finally:
            self._end_job()
            self.node.close()
        self._compare()

    def copied_count(self) -> int:
        return sum(map(len, self.copied))

    def _settings(self, more: dict[str, object]) -> dict[str, object]:
        return {
            "bootstrap.servers": self.node.bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
            **more,
        }

    def _kill(self) -> None:
        if self._random.random() < 0.5:
            self.node_kills += 1
            self.node.kill()
            self.node.start()
        else:
            self.job_kills += 1
            self._end_job()

    def _end_job(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None

    def _keep_job(self) -> None:
        """Start the job if it is not running, because it was killed or has ended with an error."""
        if self._job is not None and self._job.runs:
            return
        self._end_job()
        self.job_starts += 1
        words = [*self._command, self.node.bootstrap, SOURCE, TARGET, NAME]
        self._job = Child(words, output=self._log)

    def _progress(self, wanted: int, *, feeding: bool) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.copied_count() < wanted:
            if time.monotonic() > deadline:
                last = self._log.read_text(errors="replace")[-2000:]
                raise AssertionError(f"{self.copied_count()} of {wanted} copied; job: {last}")
            self._step(feeding=feeding)

    def _progress_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._step(feeding=False)

    def _step(self, *, feeding: bool) -> None:
        self._keep_job()
        if feeding:
            for partition in range(PARTITIONS):
                while self.written[partition] < len(self.copied[partition]) + AHEAD:
                    number = str(self.written[partition]).encode()
                    self._producer.produce(SOURCE, number, partition=partition)
                    self.written[partition] += 1
        self._producer.poll(0)
        for message in self._consumer.consume(500, 0.02):
            value = message.value()
            if message.error() is None and value is not None:
                partition = message.partition()
                assert partition is not None
                self.copied[partition].append(int(value))

    def _compare(self) -> None:
        for partition, numbers in enumerate(self.copied):
            wanted = list(range(self.written[partition]))
            if numbers != wanted:
                missing = sorted(set(wanted) - set(numbers))
                doubled = sorted({each for each in numbers if numbers.count(each) > 1})
                self.errors.append(
                    f"partition {partition}: missing {missing[:10]}, doubled {doubled[:10]}, "
                    f"{len(numbers)} numbers for {len(wanted)}"
                )
