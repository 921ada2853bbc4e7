"""Round for round the same as Apache Kafka's own cleaner, on the same files."""

from __future__ import annotations

import random
import shutil

import pytest
from tests.log.cleaner import apache_kafka
from tests.log.cleaner.support import clean
from tests.log.support import (
    NOW_MS,
    PARTITION,
    LogRoom,
    batch,
    end_transaction,
    read_batches,
)

from odradek.log import PartitionLog
from odradek.log.cleaner.facts import facts_of
from odradek.log.cleaner.planning import find_cleanable
from odradek.records.compression import Codec
from odradek.records.record import iterate_records

pytestmark = pytest.mark.java

SETTINGS = {
    "cleanup.policy": "compact",
    "segment_bytes": 4000,
    "index_interval_bytes": 300,
    "delete_retention_ms": 1000,
    "file_delete_delay_ms": 600_000,
}
KAFKA_SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 4000,
    "index.interval.bytes": 300,
    "delete.retention.ms": 1000,
    "file.delete.delay.ms": 600_000,
}


class Writer:
    """Draws what producers may do: plain, idempotent and in transactions, in every codec."""

    def __init__(self, log: PartitionLog, seed: int) -> None:
        self.log = log
        self.draw = random.Random(seed)
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: set[int] = set()

    def step(self) -> None:
        draw = self.draw
        producer = draw.choice([None, None, 1, 2, 3, 4])
        if producer is None:
            self.put({})
        elif producer in self.open and draw.random() < 0.4:
            self.end(producer)
        elif producer <= 2 or producer in self.open or draw.random() < 0.5:
            if producer > 2:
                self.open.add(producer)
            self.put(self.fields(producer))

    def fields(self, producer: int) -> dict:
        return {
            "producer_id": producer,
            "producer_epoch": self.epochs.setdefault(producer, 0),
            "base_sequence": self.sequences.setdefault(producer, 0),
            "is_transactional": producer > 2,
        }

    def put(self, fields: dict) -> None:
        draw = self.draw
        records = [
            (
                b"key-%d" % draw.randrange(25),
                None if draw.random() < 0.2 else draw.randbytes(draw.randrange(80)),
            )
            for _ in range(draw.randint(1, 8))
        ]
        if fields:
            self.sequences[fields["producer_id"]] += len(records)
        timestamp = NOW_MS - draw.randrange(1000)
        kind = {"log_append_time": timestamp} if draw.random() < 0.1 else {}
        data = batch(
            *records, timestamp=timestamp, codec=draw.choice(list(Codec)), **fields, **kind
        )
        self.log.append_as_leader(data, 0)
        self.log.high_watermark = self.log.log_end_offset

    def end(self, producer: int) -> None:
        self.open.discard(producer)
        end_transaction(self.log, self.draw.random() < 0.5, producer, self.epochs[producer])
        if self.draw.random() < 0.3:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
            end_transaction(self.log, False, producer, self.epochs[producer])


def _content(log: PartitionLog) -> list[tuple]:
    found = []
    for each in read_batches(log):
        header = (
            each.base_offset,
            each.last_offset,
            each.attributes,
            each.max_timestamp,
            each.producer_id,
            each.producer_epoch,
            each.base_sequence,
            each.leader_epoch,
            each.delete_horizon_ms,
        )
        found.append((header, list(iterate_records(each))))
    return found


@pytest.fixture(scope="module")
def kafka():
    process = apache_kafka.Kafka()
    yield process
    process.close()


def _kafka_round(kafka, log: PartitionLog, room: LogRoom, other: LogRoom, entries: int):
    """The log's directory as Apache Kafka's cleaner leaves it; the log is closed."""
    cleanable = find_cleanable(facts_of(log), room.clock.now_ms())
    uncleanable = min(log.last_stable_offset, log.active_segment.base_offset)
    log.close()
    shutil.copytree(log.path, f"{other.path}/{PARTITION}", dirs_exist_ok=False)
    said = kafka.clean(
        f"{other.path}/{PARTITION}",
        room.clock.now_ms(),
        cleanable.first_dirty_offset,
        max(cleanable.first_dirty_offset, uncleanable),
        entries,
        KAFKA_SETTINGS,
    )
    assert said.end_offset == cleanable.end_offset
    assert said.dirty_ratio == pytest.approx(cleanable.dirty_ratio)
    return said


@pytest.mark.parametrize("seed", range(6))
def test_the_same_records_stay(kafka, tmp_path, seed):
    room = LogRoom(tmp_path / "ours")
    room.storage.verify_transactions = False
    log = room.open(**SETTINGS)
    writer = Writer(log, seed)
    entries = 1000 if seed % 2 else 20
    cleaned_to = -1
    for number in range(4):
        for _ in range(50):
            writer.step()
        if number != 2:  # once, the log ends in the midst of a segment
            for producer in sorted(writer.open):
                writer.end(producer)
            log.roll()
        room.clock.ms += 700
        log.cleaning.cleaned_to(cleaned_to)
        other = LogRoom(tmp_path / f"theirs-{number}")
        other.clock.ms = room.clock.ms
        said = _kafka_round(kafka, log, room, other, entries)
        room.storage = room.new_storage(verify_transactions=False)
        clean_log = {"recovery_point": 2**62, "was_clean": True}
        log = room.reopen(arguments=clean_log, **SETTINGS)
        writer.log = log
        log.cleaning.cleaned_to(cleaned_to)
        cleaned_to = clean(log, room, entries)
        theirs = other.reopen(arguments=clean_log, **SETTINGS)
        assert cleaned_to == said.next_offset
        assert _content(log) == _content(theirs)
        assert log.segments.bases == theirs.segments.bases
        end = log.log_end_offset
        assert log.aborted_transactions(0, end) == theirs.aborted_transactions(0, end)
        for timestamp in range(NOW_MS - 1000, NOW_MS, 50):
            assert log.offset_for_timestamp(timestamp) == theirs.offset_for_timestamp(timestamp)
        theirs.close()
