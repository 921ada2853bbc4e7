"""`python -m bench.compaction`."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.maven import kafka_jars
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT, Missing, require

import bench.compaction
from bench.build import Build, add_mode, prepared
from bench.compaction.clean import cpu_seconds
from bench.compaction.logs import PARTITION, SETTINGS, content, copy, fill, open_directory
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.results import conclude
from odradek.records.compression import Codec

PROGRAM = ROOT / "tests" / "log" / "cleaner" / "java" / "Clean.java"
JVM_OPTIONS = ("-Xmx1g",)
MAP_BYTES, MAP_LOAD = 134_217_728, 0.9
"""The default settings of Apache Kafka."""
RECORDS, KEYS = 10_000_000, 1_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Experiment:
    """A log with one codec, and the results of cleaning copies of the log."""

    def __init__(self, build: Build, path: Path, codec: str, records: int, keys: int) -> None:
        """Create the log in `path`."""
        self._build = build
        self._path = path
        self._codec = codec
        speed = Quantity(f"{codec}, throughput", "MB/s", 1.0, higher_is_better=True)
        cpu = Quantity(f"{codec}, CPU", "s")
        memory = Quantity(f"{codec}, memory of the process", "MB")
        self.speed, self.cpu, self.memory = (
            Figure("compaction", each) for each in (speed, cpu, memory)
        )
        log = open_directory(path / "made")
        self._size = fill(log, records, keys, Codec[codec.upper()])
        self._end_offset = log.log_end_offset
        log.close()

    def round(self, role: str) -> Path:
        """Clean a copy of the log, and return the path of the copy."""
        directory = self._path / role
        shutil.rmtree(directory, ignore_errors=True)
        copy(self._path / "made", directory)
        if role == OURS:
            seconds, cpu = self._ours(directory)
        else:
            seconds, cpu = clean_with_kafka(directory / str(PARTITION), self._end_offset)
        speed = self._size / seconds / 1e6
        self.speed.values.setdefault(role, []).append(speed)
        self.cpu.values.setdefault(role, []).append(cpu)
        print(
            f"compaction  {self._codec:8} {role:8} {speed:8.1f} MB/s {cpu:8.1f} s of CPU",
            flush=True,
        )
        return directory

    def _ours(self, directory: Path) -> tuple[float, float]:
        command = [str(self._build.python), "-m", "bench.compaction.clean", str(directory)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"cleaning failed: {done.stderr[-1000:]}")
        result = json.loads(done.stdout)
        self.memory.values.setdefault(OURS, []).append(result["memory_mb"])
        return result["seconds"], result["cpu_seconds"]


def clean_with_kafka(directory: Path, end_offset: int) -> tuple[float, float]:
    """Clean with Apache Kafka's class. Return the seconds, and the processor seconds of the JVM."""
    classpath = ":".join(map(str, kafka_jars()))
    item = [directory, time.time_ns() // 1_000_000, 0, end_offset, MAP_BYTES, MAP_LOAD]
    fields = [*map(str, item), *(f"{name}={value}" for name, value in SETTINGS.items())]
    with subprocess.Popen(
        [str(require("java")), *JVM_OPTIONS, "-cp", classpath, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(fields) + "\n")
        process.stdin.flush()
        answer: list[str] = []
        while len(answer) != 6:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("Apache Kafka's cleaner has ended")
            answer = line.split()
        cpu = cpu_seconds(process.pid)
        process.stdin.close()
    return int(answer[3]) / 1000, cpu


def compare(ours: Path, theirs: Path) -> int:
    """Return the number of records in both logs.

    Raises:
        RuntimeError: the logs differ. The message has the first difference.
    """
    logs = [open_directory(ours), open_directory(theirs)]
    count = 0
    for one, other in zip(*map(content, logs), strict=True):
        if one != other:
            raise RuntimeError(f"Odradek kept {one}, Apache Kafka {other}")
        count += 1
    for log in logs:
        log.close()
    return count


def measure(build: Build, path: Path, codec: str, options: argparse.Namespace) -> list[Figure]:
    """Run all rounds for one codec, and return the figures."""
    experiment = Experiment(build, path, codec, options.records, options.keys)
    cleaned: dict[str, Path] = {}
    for number in range(options.rounds):
        for role in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
            cleaned[role] = experiment.round(role)
    kept = compare(cleaned[OURS], cleaned[THEIRS])
    print(f"compaction  {codec:8} both keep the same {kept:,} records", flush=True)
    return [experiment.speed, experiment.cpu, experiment.memory]


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed, and 2 if it cannot run.
    """
    options = _parser().parse_args(words)
    if options.quick:
        options.records, options.keys = options.records // 10, options.keys // 10
    machine = facts()
    figures: list[Figure] = []
    try:
        build = prepared(options.mode)
        for codec in options.codec:
            with tempfile.TemporaryDirectory(dir=options.directory) as path:
                figures += measure(build, Path(path), codec, options)
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    names = {OURS: OdradekNode.name, THEIRS: ApacheKafka.name}
    setup = {
        "kind": "setup",
        OURS: {"name": OdradekNode.name, **build.described()},
        THEIRS: {"name": ApacheKafka.name, "jvm_options": list(JVM_OPTIONS)},
        **{name: getattr(options, name) for name in ("records", "keys", "rounds")},
    }
    return conclude(figures, names, machine, setup, is_trial=options.quick, output=options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compaction",
        description=bench.compaction.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--codec", choices=CODECS, nargs="+", default=["none", "lz4"])
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default: 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; to try it out")
    parser.add_argument("--directory", help="where the logs are made; else a temporary one")
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
