"""A round of cleaning has the same result as Apache Kafka's cleaner on the same files."""

from __future__ import annotations

import random
import shutil
from bisect import bisect_right
from pathlib import Path

import pytest
from tests.log.cleaner import apache_kafka
from tests.log.cleaner.support import clean
from tests.log.support import (
    NOW_MS,
    PARTITION,
    LogWorkspace,
    batch,
    end_transaction,
    read_batches,
)
from tests.support.run_seed import seeds

from odradek.log import PartitionLog
from odradek.log.cleaner.dict_offset_map import DictOffsetMap
from odradek.log.cleaner.facts import facts_of
from odradek.log.cleaner.offset_table import OffsetTable
from odradek.log.cleaner.planning import find_cleanable
from odradek.log.cleaner.round import Round
from odradek.records.compression import Codec
from odradek.records.record import iterate_records
from odradek.records.segment_files import AbortedTransaction

pytestmark = pytest.mark.java

SETTINGS = {
    "cleanup.policy": "compact",
    "segment_bytes": 4000,
    "index_interval_bytes": 300,
    "delete_retention_ms": 1000,
    "file_delete_delay_ms": 600_000,
}
LOOKED_UP = (314700000, 52283500002)
"""In these histories, batches that were left out of the map stay in the log (see `KafkasRound`)."""
KAFKA_SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 4000,
    "index.interval.bytes": 300,
    "delete.retention.ms": 1000,
    "file.delete.delay.ms": 600_000,
}


class Writer:
    """Generates random batches: plain, idempotent and transactional, in every codec."""

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


class KafkasRound(Round):
    """A round that treats aborted transactions as Kafka does. See `Round.aborted_from`."""

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        bases = [base for base, _ in self.item.segments]
        return super().aborted_from(bases[max(0, bisect_right(bases, offset) - 1)])


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


def _kafka_round(
    kafka, log: PartitionLog, workspace: LogWorkspace, other: LogWorkspace, entries: int
):
    """Clean the closed log's directory with Apache Kafka's cleaner."""
    cleanable = find_cleanable(facts_of(log), workspace.clock.now_ms())
    uncleanable = min(log.last_stable_offset, log.active_segment.base_offset)
    log.close()
    shutil.copytree(log.path, f"{other.path}/{PARTITION}", dirs_exist_ok=False)
    said = kafka.clean(
        f"{other.path}/{PARTITION}",
        workspace.clock.now_ms(),
        cleanable.first_dirty_offset,
        max(cleanable.first_dirty_offset, uncleanable),
        entries,
        KAFKA_SETTINGS,
    )
    assert said.end_offset == cleanable.end_offset
    assert said.dirty_ratio == pytest.approx(cleanable.dirty_ratio)
    return said


@pytest.mark.parametrize("new_map", [DictOffsetMap, OffsetTable])
@pytest.mark.parametrize("seed", [*seeds(6), *LOOKED_UP])
def test_the_same_records_stay(kafka, tmp_path, monkeypatch, seed, new_map):
    monkeypatch.setattr(Round, "new_map", new_map)
    workspace = LogWorkspace(tmp_path / "ours")
    workspace.storage.verify_transactions = False
    log = workspace.open(**SETTINGS)
    writer = Writer(log, seed)
    entries = 1000 if seed % 2 else 20
    cleaned_to = -1
    for number in range(4):
        for _ in range(50):
            writer.step()
        if number != 2:  # in one round the log ends inside a segment
            for producer in sorted(writer.open):
                writer.end(producer)
            log.roll()
        workspace.clock.ms += 700
        log.cleaning.cleaned_to(cleaned_to)
        if not find_cleanable(facts_of(log), workspace.clock.now_ms()).dirty_bytes:
            continue  # an open transaction begins where the last round ended
        other = LogWorkspace(tmp_path / f"theirs-{number}")
        other.clock.ms = workspace.clock.ms
        said = _kafka_round(kafka, log, workspace, other, entries)
        workspace.storage = workspace.new_storage(verify_transactions=False)
        clean_log = {"recovery_point": 2**62, "was_clean": True}
        log = workspace.reopen(arguments=clean_log, **SETTINGS)
        writer.log = log
        log.cleaning.cleaned_to(cleaned_to)
        cleaned_to = clean(log, workspace, entries, KafkasRound)
        theirs = other.reopen(arguments=clean_log, **SETTINGS)
        assert cleaned_to == said.next_offset
        assert _content(log) == _content(theirs)
        assert log.segments.bases == theirs.segments.bases
        end = log.log_end_offset
        assert log.aborted_transactions(0, end) == theirs.aborted_transactions(0, end)
        for timestamp in range(NOW_MS - 1000, NOW_MS, 50):
            assert log.offset_for_timestamp(timestamp) == theirs.offset_for_timestamp(timestamp)
        theirs.close()


class OneLog:
    """A log in a separate directory. Odradek or Kafka cleans it, one round at a time."""

    def __init__(self, path: Path, kafka: apache_kafka.Kafka | None) -> None:
        self.workspace = LogWorkspace(path)
        self.workspace.storage.verify_transactions = False
        self.kafka = kafka
        self.log = self.workspace.open(**SETTINGS | {"index_interval_bytes": 0})
        self.cleaned_to = -1

    def append(self, *records: tuple[bytes, bytes | None], **fields: object) -> None:
        self.log.append_as_leader(batch(*records, **fields), 0)
        self.log.high_watermark = self.log.log_end_offset

    def clean(self, entries: int) -> None:
        if self.kafka is None:
            self.cleaned_to = clean(self.log, self.workspace, entries)
            return
        end = self.log.active_segment.base_offset
        start = max(0, self.cleaned_to)
        self.log.close()
        self.cleaned_to = self.kafka.clean(
            self.log.path, self.workspace.clock.now_ms(), start, end, entries, KAFKA_SETTINGS
        ).next_offset
        self.workspace.storage = self.workspace.new_storage(verify_transactions=False)
        clean_log = {"recovery_point": 2**62, "was_clean": True}
        self.log = self.workspace.reopen(
            arguments=clean_log, **SETTINGS | {"index_interval_bytes": 0}
        )
        self.log.cleaning.cleaned_to(self.cleaned_to)

    def values(self, key: bytes) -> list[bytes | None]:
        batches = [each for each in read_batches(self.log) if not each.is_control]
        records = [record for each in batches for record in iterate_records(each)]
        return [record.value for record in records if record.key == key]


def test_a_deleted_key_stays_deleted(kafka, tmp_path):
    """Kafka removes a committed tombstone as if it were aborted, and keeps the old value.

    This happens if a full map has ended a round inside a segment, after an aborted transaction of
    the same producer. It is the only rule of Kafka's cleaner that Odradek does not follow.
    """
    logs = OneLog(tmp_path / "ours", None), OneLog(tmp_path / "kafkas", kafka)
    for each in logs:
        transaction = {"producer_id": 3, "producer_epoch": 0, "is_transactional": True}
        each.append((b"deleted", b"old"))
        each.append((b"aborted", b"x"), base_sequence=0, **transaction)
        end_transaction(each.log, False, 3)
        for number in range(4):
            each.append((b"key %d" % number, b"x"))
        each.append((b"deleted", None), base_sequence=1, **transaction)
        end_transaction(each.log, True, 3)
        each.append((b"key 0", b"y"))
        each.log.roll()
        each.clean(4)
        assert each.cleaned_to == 6
        each.clean(4)
        assert each.cleaned_to == each.log.active_segment.base_offset == 10
        each.workspace.clock.ms += 2 * SETTINGS["delete_retention_ms"]
        each.append((b"key 1", b"y"))
        each.log.roll()
        each.clean(4)
    ours, kafkas = logs
    assert ours.values(b"deleted") == []
    assert kafkas.values(b"deleted") == [b"old"]


def test_a_compacted_log_shrinks_to_nothing(kafka, tmp_path):
    """Apache Kafka before 4.4 keeps the last batch of each round, without its records."""
    logs = OneLog(tmp_path / "ours", None), OneLog(tmp_path / "kafkas", kafka)
    for each in logs:
        for number in range(3):
            each.append((b"key %d" % number, None))
            each.log.roll()
            each.append((b"later", b"%d" % number))
            each.clean(10)
            each.workspace.clock.ms += 2 * SETTINGS["delete_retention_ms"]
            each.cleaned_to = 0
            each.log.cleaning.cleaned_to(0)
            each.clean(10)
    ours, kafkas = logs
    assert _content(ours.log) == _content(kafkas.log)
    assert [each.base_offset for each in read_batches(ours.log)] == [3, 5]
