"""Jobs of three clients that copy a topic in transactions while the servers are disturbed.

Each job reads the source in a group and writes the values to the same partition of its own target,
with its offsets in the same transaction. A job ends when its client cannot continue, and is then
started again. A read_committed consumer reads all targets. Each target must have the values of the
source once and in order.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.lab import java
from compat.lab.maven import kafka_jars
from confluent_kafka import Consumer, TopicPartition
from tests.support.child import Child

JOBS = Path(__file__).parent / "jobs"
PYTHON_CLIENTS = ("confluent", "aiokafka")
RECORDS_MAX = 500
"""The number of records in a transaction."""


def python_command(client: str) -> list[str]:
    """The command that starts the job of a client in Python."""
    return [sys.executable, str(JOBS / f"{client}_job.py")]


def java_command() -> list[str]:
    """The command that starts the job of Apache Kafka's client.

    Raises:
        Missing: there is no Java.
    """
    jars = kafka_jars()
    classes = java.compiled(jars, JOBS)
    return java.command("ExactlyOnceJob", jars, classes, options=["-Xmx128m"])


def all_commands() -> dict[str, list[str]]:
    """The commands of all clients, by the client's name.

    Raises:
        Missing: there is no Java.
    """
    return {**{each: python_command(each) for each in PYTHON_CLIENTS}, "java": java_command()}


class CopyJobs:
    """The jobs, and what they have copied."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        directory: Path,
        source: str,
        partitions: int,
    ) -> None:
        self.errors: list[str] = []
        self.starts = dict.fromkeys(commands, 0)
        """How often each job was started."""
        self._commands = commands
        self._directory = directory
        self._source = source
        self._copied = {name: [0] * partitions for name in commands}
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def targets(self) -> list[str]:
        """The topics that the jobs write."""
        return [_target(name) for name in self._commands]

    def copied(self) -> dict[str, int]:
        """The number of committed records in each job's target."""
        return {name: sum(counts) for name, counts in self._copied.items()}

    def start(self, bootstrap: str) -> None:
        """Start the jobs. The targets exist."""
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), name="copy jobs")
        self._thread.start()

    def stop(self) -> None:
        """Kill the jobs."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def last_words(self) -> str:
        """The end of the output of each job."""
        logs = [self._log(name) for name in self._commands]
        return "\n".join(each.read_text(errors="replace")[-1000:] for each in logs if each.exists())

    def _log(self, name: str) -> Path:
        return self._directory / f"job-{name}.log"

    def _run(self, bootstrap: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "looks-at-copies",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        consumer.assign(
            [
                TopicPartition(_target(name), partition, 0)
                for name, counts in self._copied.items()
                for partition in range(len(counts))
            ]
        )
        jobs: dict[str, Child] = {}
        try:
            while not self._is_stopping.is_set():
                for name in self._commands:
                    if name not in jobs or not jobs[name].runs:
                        if name in jobs:
                            jobs[name].close()
                        jobs[name] = self._started(name, bootstrap)
                self._note(consumer)
        finally:
            for job in jobs.values():
                job.close()
            consumer.close()

    def _started(self, name: str, bootstrap: str) -> Child:
        self.starts[name] += 1
        words = [*self._commands[name], bootstrap, self._source, _target(name), f"job-{name}"]
        return Child([*words, str(RECORDS_MAX)], output=self._log(name))

    def _note(self, consumer: Consumer) -> None:
        names = {_target(name): name for name in self._commands}
        for message in consumer.consume(1000, 0.1):
            topic, partition, value = message.topic(), message.partition(), message.value()
            if message.error() is not None or topic is None or partition is None or value is None:
                continue
            counts = self._copied[names[topic]]
            if int(value) != counts[partition]:
                self.errors.append(
                    f"{topic}-{partition}: {int(value)} at {message.offset()}, "
                    f"not {counts[partition]}"
                )
            counts[partition] = int(value) + 1


def _target(name: str) -> str:
    return f"copied-{name}"
