"""Measures how long a node loads a snapshot of many partitions: `python -m bench.snapshot_load`.

The snapshot has 100 000 partitions with three replicas each, in 1 000 topics. The time ends when
the image of the metadata is complete. A node loads a snapshot when it starts, and when it is so far
behind that the leader no longer has the records.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator

from bench.build import PURE
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


def main() -> int:
    """Run all rounds, and store the result. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot_load", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    file_system = OsFileSystem()
    snapshot_id = SnapshotId(TOPICS * (PARTITIONS + 1), 1)
    name = f"load {TOPICS * PARTITIONS} partitions"
    figure = Figure("snapshot_load", Quantity(name, "s", most=SECONDS_MAX))
    machine = facts()
    with tempfile.TemporaryDirectory(prefix="odradek-snapshot-") as directory:
        path = f"{directory}/{snapshot_id.name}"
        values = (encode_record(each, LEVEL_MAX) for each in records())
        batches = snapshot_batches(snapshot_id.epoch, 0, [], values, 0)
        size = write_snapshot(file_system, path, batches, directory)
        for _ in range(options.rounds):
            started = time.monotonic()
            loader = BatchLoader()
            loaded = map(decode_record, read_snapshot(file_system, path).values)
            loader.load_snapshot(loaded, snapshot_id.offset - 1, snapshot_id.epoch)
            figure.values.setdefault(OURS, []).append(time.monotonic() - started)
            assert len(loader.image.topics.by_name) == TOPICS
    setup = {"kind": "setup", OURS: {"mode": PURE}, "bytes": size, "rounds": options.rounds}
    names = {OURS: "Odradek", THEIRS: "Apache Kafka"}
    return conclude([figure], names, machine, setup, is_trial=options.rounds < 5)


if __name__ == "__main__":
    raise SystemExit(main())
