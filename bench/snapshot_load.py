"""Measures how long a node loads a snapshot of many partitions: `python -m bench.snapshot_load`.

The snapshot has 100 000 partitions with three replicas each, in 1 000 topics. The time ends when
the image of the metadata is complete. A node loads a snapshot when it starts, and when it is so far
behind that the leader no longer has the records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from compat.lab.toolchain import ROOT, Missing

from bench.build import WHEEL, Build, add_mode, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.results import conclude
from odradek.broker.raft.snapshots import (
    SnapshotId,
    read_snapshot,
    snapshot_batches,
    write_snapshot,
)
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.record import decode_record, encode_record
from odradek.core.metadata.versions import LEVEL_MAX
from odradek.env.file_system import OsFileSystem
from odradek.wire.generated.partition_record import PartitionRecord
from odradek.wire.generated.topic_record import TopicRecord
from odradek.wire.primitives import Message

TOPICS = 1000
PARTITIONS = 100
REPLICAS = [1, 2, 3]
SECONDS_MAX = 5.0
ROUNDS = 5


def records() -> Iterator[Message]:
    """Yield the records of all topics."""
    for number in range(1, TOPICS + 1):
        topic_id = number.to_bytes(16, "big")
        yield TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for index in range(PARTITIONS):
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=REPLICAS,
                isr=REPLICAS,
                leader=REPLICAS[index % len(REPLICAS)],
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes([each] * 16) for each in REPLICAS],
            )


def measured(rounds: int) -> dict[str, object]:
    """Write the snapshot, and load it this many times. Return its size and the seconds."""
    file_system = OsFileSystem()
    snapshot_id = SnapshotId(TOPICS * (PARTITIONS + 1), 1)
    seconds = []
    with tempfile.TemporaryDirectory(prefix="odradek-snapshot-") as directory:
        path = f"{directory}/{snapshot_id.name}"
        values = (encode_record(each, LEVEL_MAX) for each in records())
        batches = snapshot_batches(snapshot_id.epoch, 0, [], values, 0)
        size = write_snapshot(file_system, path, batches, directory)
        for _ in range(rounds):
            started = time.monotonic()
            loader = BatchLoader()
            loaded = map(decode_record, read_snapshot(file_system, path).values)
            loader.load_snapshot(loaded, snapshot_id.offset - 1, snapshot_id.epoch)
            seconds.append(time.monotonic() - started)
            assert len(loader.image.topics.by_name) == TOPICS
    return {"bytes": size, "seconds": seconds}


def measured_with(build: Build, rounds: int) -> dict[str, Any]:
    """Return the result of `measured` in a process with the Python interpreter of a build.

    Raises:
        RuntimeError: the process failed. The message has the end of its output.
    """
    command = [str(build.python), "-m", "bench.snapshot_load", "--measure", str(rounds)]
    environment = dict(os.environ)
    if build.mode == WHEEL:
        environment.pop("PYTHONPATH", None)  # it could name a checkout, which would hide the wheel
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"loading failed: {done.stderr[-1000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> int:
    """Run all rounds, and store the result. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot_load", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    add_mode(parser)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return 0
    machine = facts()
    try:
        build = prepared(options.mode)
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    result = measured_with(build, options.rounds)
    name = f"load {TOPICS * PARTITIONS} partitions"
    quantity = Quantity(name, "s", most=SECONDS_MAX)
    figure = Figure("snapshot_load", quantity, {OURS: result["seconds"]})
    setup = {
        "kind": "setup",
        OURS: build.described(),
        "bytes": result["bytes"],
        "rounds": options.rounds,
    }
    names = {OURS: "Odradek", THEIRS: "Apache Kafka"}
    return conclude([figure], names, machine, setup, is_trial=options.rounds < ROUNDS)


if __name__ == "__main__":
    raise SystemExit(main())
