"""Measures a start after a crash, and a start after a clean stop: `python -m bench.recovery`.

A producer with default settings fills a topic in an Odradek node. Then the node is killed. Nothing
was flushed, so recovery begins at offset 0, and the next broker that starts must check every batch.
The two brokers start alternately with the same files, and read them from the device. After each start
the broker is killed, which does not change the files. At the end the Odradek node is stopped
cleanly. Then the two brokers are alternately started and stopped cleanly with these files.

The measured time is the time from the start of the process until all partitions are served. The sum
of their end offsets must be the number of acknowledged records.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compat.lab import java, maven
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.cluster import MIXED_RELEASE
from compat.lab.dialogue import Dialogue
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient

from bench.build import add_mode, prepared
from bench.environment import JAVA_SOURCES, JVM_OPTIONS
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.results import conclude
from odradek.log import names

TOPIC = "recovered"
RECORD_SIZE = 1000
PATIENCE_SECONDS = 1800.0
POLL_SECONDS = 0.02
CHUNK_RECORDS = 2_000_000
"""The number of records in a command to the producer. It responds when all are acknowledged."""
NEEDED = 1.3
"""The number of free bytes on the disk that each byte of records needs."""

UNCLEAN = Quantity("unclean start", "s", 1.0)
UNCLEAN_CPU = Quantity("unclean start, CPU", "s")
MEMORY = Quantity("memory after it", "MB")
CLEAN = Quantity("clean start", "s", 1 / 3)
CLEAN_CPU = Quantity("clean start, CPU", "s")


class Experiment:
    """Both brokers. They use the same data directory, and only one of them runs at a time."""

    def __init__(self, directory: Path, partitions: int, gigabytes: float, mode: str) -> None:
        self._ours = prepared(mode).node()(directory=directory)
        self.brokers: dict[str, Broker] = {
            OURS: self._ours,
            THEIRS: ApacheKafka(directory=directory),
        }
        self.partitions = partitions
        self.records = int(gigabytes * 1e9) // RECORD_SIZE
        self.figures = {
            each.name: Figure("recovery", each)
            for each in (UNCLEAN, UNCLEAN_CPU, MEMORY, CLEAN, CLEAN_CPU)
        }
        for broker in self.brokers.values():
            broker.start_seconds_max = PATIENCE_SECONDS

    @property
    def is_filled(self) -> bool:
        """Whether the directory has the data of an earlier run."""
        return (self.brokers[OURS].data / f"{TOPIC}-{self.partitions - 1}").exists()

    def fill(self) -> None:
        """Write the records to an Odradek node, and kill the node."""
        format_ = [str(self._ours.program), "format", "--data", str(self._ours.data)]
        subprocess.run([*format_, "--release-version", MIXED_RELEASE], check=True)
        broker = self._ours.start()
        started = time.monotonic()
        with _producer() as producer:
            words: dict[str, Any] = {"bootstrap": broker.bootstrap, "topic": TOPIC}
            producer.ask("create_topic", partitions=self.partitions, **words)
            for sent in range(0, self.records, CHUNK_RECORDS):
                count = min(CHUNK_RECORDS, self.records - sent)
                producer.ask(
                    "produce",
                    PATIENCE_SECONDS,
                    records=count,
                    size=RECORD_SIZE,
                    properties={},
                    **words,
                )
                _say(f"{(sent + count) * RECORD_SIZE / 1e9:.1f} GB are written")
        broker.kill()
        _say(f"made in {time.monotonic() - started:.0f} s")

    def start(self, role: str) -> float:
        """Start a broker, and wait until it serves all records. Return the time in seconds."""
        broker = self.brokers[role].start()
        with WireClient(broker.port, timeout=PATIENCE_SECONDS) as client:
            while len(ends := client.end_offsets(TOPIC, self.partitions)) < self.partitions:
                time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - broker.started_at
        served = sum(ends.values())
        assert served == self.records, f"{broker.name} serves {served} of {self.records} records"
        return seconds

    def unclean(self, role: str) -> None:
        """Measure a start after a crash, with an empty page cache. Then kill the broker."""
        broker = self.brokers[role]
        forget(broker.data)
        seconds = self.start(role)
        memory = broker.rss_bytes() / 1e6
        self._note(role, {UNCLEAN: seconds, UNCLEAN_CPU: broker.cpu_seconds(), MEMORY: memory})
        broker.kill()

    def clean(self, role: str) -> None:
        """Measure a start after a clean stop. Then stop the broker cleanly."""
        broker = self.brokers[role]
        self._note(role, {CLEAN: self.start(role), CLEAN_CPU: broker.cpu_seconds()})
        self.stop(role)

    def stop(self, role: str) -> None:
        """Stop a broker cleanly."""
        broker = self.brokers[role]
        started = time.monotonic()
        broker.stop(PATIENCE_SECONDS)
        assert (broker.data / names.CLEAN_SHUTDOWN).exists(), broker.last_words()
        _say(f"{broker.name} stopped in {time.monotonic() - started:.1f} s")

    def _note(self, role: str, values: Mapping[Quantity, float]) -> None:
        for quantity, value in values.items():
            self.figures[quantity.name].values.setdefault(role, []).append(value)
        text = ", ".join(f"{each.name} {value:.4g} {each.unit}" for each, value in values.items())
        _say(f"{self.brokers[role].name:20} {text}")


@contextlib.contextmanager
def _producer() -> Iterator[Dialogue]:
    jars = maven.kafka_jars()
    classes = java.compiled(jars, JAVA_SOURCES)
    with tempfile.TemporaryDirectory() as directory:
        words = java.command("Load", jars, classes, options=JVM_OPTIONS)
        dialogue = Dialogue(words, log=Path(directory) / "load.log")
        try:
            yield dialogue
        finally:
            dialogue.close()


def forget(directory: Path) -> None:
    """Remove the clean shutdown file and the recovery points. Drop all files from the page cache.

    The next start then does the same as after a power failure without any earlier flush.
    """
    for name in (names.CLEAN_SHUTDOWN, names.RECOVERY_POINT_CHECKPOINT):
        (directory / name).unlink(missing_ok=True)
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def in_turns(rounds: int) -> Iterator[str]:
    """Yield both roles for each round. The order of the roles changes in every round."""
    for index in range(rounds):
        yield from (OURS, THEIRS) if index % 2 == 0 else (THEIRS, OURS)


def run(experiment: Experiment, rounds: int) -> list[Figure]:
    """Run the rounds of both kinds of starts, and return the figures."""
    if not experiment.is_filled:
        experiment.fill()
    for role in in_turns(rounds):
        experiment.unclean(role)
    experiment.start(OURS)
    experiment.stop(OURS)
    for role in in_turns(max(rounds, 3)):
        experiment.clean(role)
    return list(experiment.figures.values())


def _say(what: str) -> None:
    print(f"recovery  {what}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed, and 2 if a broker cannot run.
    """
    options = _parser().parse_args(words)
    if options.quick:
        options.partitions, options.gigabytes = options.partitions // 10, options.gigabytes / 50
    machine = facts()
    with contextlib.ExitStack() as stack:
        try:
            path = options.keep or stack.enter_context(_room_for(options.gigabytes))
            experiment = Experiment(path, options.partitions, options.gigabytes, options.mode)
            for broker in experiment.brokers.values():
                stack.callback(broker.close)
            figures = run(experiment, options.rounds)
        except (BrokerFailed, Missing) as reason:
            print(f"cannot run: {reason}", file=sys.stderr)
            return 2
    brokers = experiment.brokers
    setup = {
        "kind": "setup",
        **{role: broker.described() for role, broker in brokers.items()},
        **{name: getattr(options, name) for name in ("partitions", "gigabytes", "rounds")},
    }
    called = {role: broker.name for role, broker in brokers.items()}
    return conclude(figures, called, machine, setup, is_trial=options.quick, output=options.output)


@contextlib.contextmanager
def _room_for(gigabytes: float) -> Iterator[Path]:
    free = shutil.disk_usage(tempfile.gettempdir()).free / 1e9
    if free < gigabytes * NEEDED:
        raise Missing(f"{free:.0f} GB of disk are free, not {gigabytes * NEEDED:.0f}")
    with tempfile.TemporaryDirectory(prefix="odradek-recovery-") as path:
        yield Path(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument(
        "--gigabytes", type=float, default=20, help="of record values (default: 20)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each kind (default: 3)")
    parser.add_argument("--quick", action="store_true", help="0.4 GB in 100 partitions; to try it")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the data there, or use what is there already"
    )
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
