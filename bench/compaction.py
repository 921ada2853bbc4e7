"""What compaction costs: `python -m bench.compaction`, side by side with Apache Kafka's cleaner.

Both clean the same log once, each in a process of its own and on one core: ours the way a node
does it, theirs by the class that its cleaner threads call. The results are compared record by
record (offset, timestamp, key, value).
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from compat.lab.maven import kafka_jars
from compat.lab.toolchain import require

from odradek.config.broker_config import BrokerConfig
from odradek.config.load import load
from odradek.env.clock import SystemClock
from odradek.env.file_system import OsFileSystem
from odradek.env.process import PipedProcess
from odradek.env.randomness import system_random_bytes
from odradek.log import LogDirectory, PartitionLog, Storage, open_log
from odradek.log.cleaner.child import WORKER, ProcessChild
from odradek.log.cleaner.facts import facts_of, work_item
from odradek.log.cleaner.planning import find_cleanable
from odradek.log.cleaner.replacing import replace_segments
from odradek.log.cleaner.work import Done, Failed, Replaced, WorkItem, encode_item
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import HEADER_SIZE, RECORD_BATCH_HEADER, iterate_batches
from odradek.records.builder import seal
from odradek.records.compression import Codec, compress
from odradek.records.record import iterate_records
from odradek.records.varint import append_varint

PARTITION = TopicPartition("compacted", 0)
PROGRAM = Path(__file__).parents[1] / "tests" / "log" / "cleaner" / "java" / "Clean.java"
BATCH_RECORDS = 150
VALUE_SIZE = 100
SETTINGS = {"cleanup.policy": "compact"}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--codec", choices=["none", "lz4", "gzip", "snappy", "zstd"], nargs="+")
    parser.add_argument("--directory", help="where the logs are made; else a temporary one")
    options = parser.parse_args()
    for name in options.codec or ["none", "lz4"]:
        with tempfile.TemporaryDirectory(dir=options.directory) as path:
            compare(Path(path), options.records, options.keys, Codec[name.upper()])


def compare(path: Path, records: int, keys: int, codec: Codec) -> None:
    """Make a log, clean it twice, and print what it took."""
    config, _ = load(None, {}, data_directory=str(path))
    print(f"{records:,} records of {keys:,} keys, {VALUE_SIZE}-byte values, {codec.name.lower()}")
    log = open_new(config, path / "ours")
    size = fill(log, records, keys, codec)
    log.close()
    shutil.copytree(path / "ours", path / "theirs")
    log = open_new(config, path / "ours")
    ours, our_cpu = clean(log, config)
    log.close()
    theirs, their_cpu = clean_with_kafka(path / "theirs" / str(PARTITION), log.log_end_offset)
    report("odradek", size, records, ours, our_cpu)
    report("apache kafka", size, records, theirs, their_cpu)
    print(f"  throughput {theirs / ours:.2f} of Apache Kafka's, CPU {our_cpu / their_cpu:.2f}")
    kept = 0
    other = open_new(config, path / "theirs")
    for one, two in zip(content(log), content(other), strict=True):
        assert one == two, f"{one} is not {two}"
        kept += 1
    print(f"  the same {kept:,} records stay")
    other.close()


def report(name: str, size: int, records: int, seconds: float, cpu: float) -> None:
    """One line."""
    print(
        f"  {name:<14}{seconds:8.1f} s {size / seconds / 1e6:8.1f} MB/s "
        f"{records / seconds:12,.0f} records/s {cpu:8.1f} s of CPU"
    )


def open_new(config: BrokerConfig, path: Path) -> PartitionLog:
    """The log in a directory, made if it is not there."""
    storage = Storage(OsFileSystem(), SystemClock(), system_random_bytes)
    return open_log(
        storage,
        LogDirectory(str(path)),
        PARTITION,
        config.topic_config(SETTINGS),
        topic_id=bytes(range(16)),
        recovery_point=2**62,
        was_clean=True,
    )


def fill(log: PartitionLog, records: int, keys: int, codec: Codec) -> int:
    """Append the records, and begin a new segment; the bytes of the log."""
    draw = random.Random(1)
    text = draw.randbytes(VALUE_SIZE * 40).hex().encode()
    now = time.time_ns() // 1_000_000
    for base in range(0, records, BATCH_RECORDS):
        count = min(BATCH_RECORDS, records - base)
        payload = bytearray()
        for number in range(count):
            start = draw.randrange(len(text) - VALUE_SIZE)
            record = bytearray(b"\0\0")
            append_varint(record, number)
            record += b"\x18%012d" % draw.randrange(keys)
            record += b"\xc8\x01" + text[start : start + VALUE_SIZE] + b"\0"
            append_varint(payload, len(record))
            payload += record
        log.append_as_leader(_batch(payload, count, codec, now), 0)
    log.high_watermark = log.log_end_offset
    size = log.size
    log.roll()
    return size


def _batch(payload: bytearray, count: int, codec: Codec, now: int) -> bytearray:
    compressed = compress(codec, payload)
    batch = bytearray(HEADER_SIZE)
    batch += compressed
    fields = (0, len(batch) - 12, -1, 2, 0, codec, count - 1, now, now, -1, -1, -1, count)
    RECORD_BATCH_HEADER.pack_into(batch, 0, *fields)
    seal(batch)
    return batch


def clean(log: PartitionLog, config: BrokerConfig) -> tuple[float, float]:
    """Clean by a process of ours, in as many rounds as it takes; seconds, and those of CPU."""
    log.high_watermark = log.log_end_offset
    process = PipedProcess(WORKER)
    child = ProcessChild(process)
    before = cpu_seconds(process.pid)
    seconds = 0.0
    while (cleanable := find_cleanable(facts_of(log), log.storage.clock.now_ms())).dirty_bytes:
        done = _round(child, log, work_item(log, cleanable, config, 1, 1e300))
        seconds += done.elapsed_ms / 1000
        log.first_dirty_offset = done.next_offset
        print(f"  a round to offset {done.next_offset:,}, map {done.map_utilization:.0%} full")
    cpu = cpu_seconds(process.pid) - before
    print(f"  the process took up to {peak_megabytes(process.pid)} MB")
    child.kill()
    return seconds, cpu


def _round(child: ProcessChild, log: PartitionLog, item: WorkItem) -> Done:
    child.send(encode_item(item))
    while True:
        for message in child.receive():
            match message:
                case Replaced():
                    replace_segments(log, message.old, message.size)
                case Done():
                    return message
                case Failed():
                    raise RuntimeError(message.reason)
        time.sleep(0.01)


def clean_with_kafka(directory: Path, end_offset: int) -> tuple[float, float]:
    """Clean by Apache Kafka's class; seconds, and those of CPU."""
    classpath = ":".join(map(str, kafka_jars()))
    question = [directory, time.time_ns() // 1_000_000, 0, end_offset, 134_217_728, 0.9]
    fields = [*map(str, question), *(f"{name}={value}" for name, value in SETTINGS.items())]
    with subprocess.Popen(
        [str(require("java")), "-Xmx1g", "-cp", classpath, str(PROGRAM)],
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
            assert line, "Apache Kafka's cleaner has died"
            answer = line.split()
        cpu = cpu_seconds(process.pid)
        process.stdin.close()
    return int(answer[3]) / 1000, cpu


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def peak_megabytes(pid: int) -> int:
    """The most memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return -1


def content(log: PartitionLog) -> Iterator[tuple[object, ...]]:
    """All records."""
    for segment in log.segments:
        with open(segment.path(".log"), "rb") as file:
            for batch in iterate_batches(file.read()):
                for record in iterate_records(batch):
                    yield record[:4]


if __name__ == "__main__":
    main()
