"""Histories of faults: a query copies a topic while its driver, its workers or the broker are killed.

In each history the query copies `RECORDS` records in micro-batches of a hundred. Each fault is at a
random step of a random micro-batch, or at a random time. A driver can also become a zombie: it waits
at a step, continues when another driver has taken over the query, and is killed later. At the end a
read_committed consumer of another implementation must find every record exactly once.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from compat.lab.broker import Broker
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.spark.faults.source import PLAIN_STEPS, STEPS, TASK_STEPS
from tests.spark.faults.standalone import StandaloneCluster

RECORDS = 1200
PARTITIONS = 2
SILENCE_SECONDS = 180.0
"""A job that neither reaches a step nor ends for this time has failed."""
RANDOM_SECONDS_MAX = 4.0
ZOMBIE_SECONDS = 8.0
"""A zombie whose query neither fails nor ends is killed after this time."""
LOCAL = "local[2]"
KINDS = ("driver", "worker", "broker", "zombie")
CLUSTER_KINDS = (*KINDS, "executor")
RANDOM_TIME = "random time"


@dataclass
class Outcome:
    """What a history found."""

    faults: list[str] = field(default_factory=list)
    missing: int = 0
    doubled: int = 0
    job_starts: int = 0


class History:
    def __init__(
        self, broker: Broker, directory: Path, seed: int, guarantee: str, master: str
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._faults = directory / "faults"
        self._random = random.Random(seed)
        self._guarantee = guarantee
        self._distribution = self._random.choice(("tasks", "driver"))
        self._master = master
        self._job: subprocess.Popen[bytes] | None = None
        self.outcome = Outcome()

    def run(self, faults: int) -> Outcome:
        self._faults.mkdir()
        with self._broker:
            self._produce()
            try:
                self._start_job()
                for _ in range(faults):
                    if self._has_ended():
                        break
                    self._fault()
                self._wait_for_end()
            finally:
                self._kill_job()
            self._compare()
        return self.outcome

    # -- faults -----------------------------------------------------------------------------

    def _fault(self) -> None:
        kind = self._random.choice(KINDS if self._master == LOCAL else CLUSTER_KINDS)
        steps = STEPS if self._guarantee == "exactly-once" else PLAIN_STEPS
        step = self._random.choice((*steps, *steps, RANDOM_TIME))
        if kind == "executor":
            step = self._random.choice(TASK_STEPS)
        if step == RANDOM_TIME:
            time.sleep(self._random.uniform(0, RANDOM_SECONDS_MAX))
            kind = "driver" if kind in ("worker", "zombie") else kind
        elif not self._reach(step, "worker" if kind == "worker" else "wait"):
            return
        self.outcome.faults.append(f"{kind} at {step}")
        if kind == "driver":
            self._kill_job()
            self._settle(step)
            self._start_job()
        elif kind == "zombie":
            self._let_a_zombie_continue(step)
        elif kind == "executor":
            self._kill_executor(self._faults / f"reached-{step}")
            self._settle(step)
        elif kind == "broker":
            self._broker.kill()
            self._settle(step)
            self._broker.start()

    def _reach(self, step: str, action: str) -> bool:
        """Wait until the job reaches a step. Return False if it ends before."""
        armed, reached = self._faults / f"armed-{step}", self._faults / f"reached-{step}"
        reached.unlink(missing_ok=True)
        armed.write_text(action)
        deadline = time.monotonic() + SILENCE_SECONDS
        while not reached.exists():
            if self._has_ended():
                armed.unlink(missing_ok=True)
                return False
            assert time.monotonic() < deadline, f"{step} is not reached: {self._last_words()}"
            time.sleep(0.01)
        return True

    def _let_a_zombie_continue(self, step: str) -> None:
        """Start another driver while one waits at a step, then let both continue.

        The other driver is at the same micro-batch then, or has committed it.
        """
        zombie, zombie_log = self._job, self._log
        assert zombie is not None
        try:
            self._start_job()
            self._outlive(zombie, zombie_log, step)
        finally:
            kill(zombie)

    def _outlive(self, zombie: subprocess.Popen[bytes], zombie_log: Path, step: str) -> None:
        """Let the new driver come to a step, and then the zombie continue until it fails."""
        other = "commit-start" if step != "commit-start" else "task-start"
        for _ in range(self._random.choice((1, PARTITIONS + 1))):
            self._settle(other)
            self._reach(other, "wait")
        self._settle(step)
        deadline = time.monotonic() + ZOMBIE_SECONDS
        size = zombie_log.stat().st_size
        while zombie_log.stat().st_size == size and zombie.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._settle(other)

    def _settle(self, step: str) -> None:
        (self._faults / f"reached-{step}").unlink(missing_ok=True)

    # -- the job ----------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        """The output of the last job that was started."""
        return self._directory / f"job-{self.outcome.job_starts}.log"

    def _start_job(self) -> None:
        self.outcome.job_starts += 1
        checkpoint = self._directory / "checkpoint"
        words = [self._broker.bootstrap, checkpoint, self._faults]
        words += [self._guarantee, self._distribution, self._master]
        command = [sys.executable, "-m", "tests.spark.faults.job", *map(str, words)]
        with self._log.open("ab") as log:
            self._job = subprocess.Popen(command, stdout=log, stderr=log)

    def _has_ended(self) -> bool:
        """Whether the job has ended well.

        Raises:
            AssertionError: the job has failed.
        """
        assert self._job is not None
        code = self._job.poll()
        assert not code, f"the job failed: {self._last_words()}"
        return code == 0

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + SILENCE_SECONDS
        while not self._has_ended():
            assert time.monotonic() < deadline, f"the job does not end: {self._last_words()}"
            time.sleep(0.05)

    def _kill_job(self) -> None:
        """Kill the driver, its JVM and its workers."""
        if self._job is not None:
            kill(self._job)
            self._job = None

    def _kill_executor(self, reached: Path) -> None:
        """Kill the executor of the worker that has written its process id to a file."""
        while not reached.read_text().isdigit():
            time.sleep(0.01)
        for parent in psutil.Process(int(reached.read_text())).parents():
            if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
                parent.kill()
                return
        raise AssertionError("the worker has no executor")

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    # -- the records ------------------------------------------------------------------------

    def _produce(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("source", "target")]
        for made in admin.create_topics(topics).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": self._broker.bootstrap})
        for number in range(RECORDS):
            key = None if number % 3 == 0 else str(number)
            producer.produce("source", str(number), key, partition=number % PARTITIONS)
        assert producer.flush(30) == 0

    def _compare(self) -> None:
        found = Counter(committed(self._broker.bootstrap, "target", PARTITIONS))
        wanted = {str(number).encode() for number in range(RECORDS)}
        assert found.keys() <= wanted, "records that were never written"
        self.outcome.missing = len(wanted - found.keys())
        self.outcome.doubled = sum(count - 1 for count in found.values())


def kill(job: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(job.pid)
        family = [root, *root.children(recursive=True)]
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(family[1:])
    job.wait()


def committed(servers: str, topic: str, partitions: int) -> list[bytes]:
    """Return the values of a topic as a read_committed consumer finds them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "comparison",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values, left = [], set(range(partitions))
    while left:
        for message in consumer.consume(500, 1.0):
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(message.error())
    consumer.close()
    return values


def play(
    broker: type[Broker], seed: int, faults: int, guarantee: str, *, on_cluster: bool
) -> Outcome:
    """Run one history with a new broker, and with a new standalone cluster if wanted."""
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    with (
        tempfile.TemporaryDirectory(prefix="odradek-faults-") as name,
        contextlib.ExitStack() as stack,
    ):
        directory, master = Path(name), LOCAL
        if on_cluster:
            master = stack.enter_context(StandaloneCluster(directory)).master
        node = broker(directory=directory / "broker")
        return History(node, directory, seed, guarantee, master).run(faults)
