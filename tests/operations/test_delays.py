"""The records that share groups deliver later."""

from __future__ import annotations

from odradek.client import Batch
from odradek.core.share.schedule import HEADER
from odradek.model.topic_partition import TopicPartition
from odradek.operations import delays
from odradek.operations.delays import read_waiting
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def batch(key: TopicPartition, *due_ms: int | None) -> Batch:
    builder = RecordBatchBuilder(base_offset=0)
    for due in due_ms:
        headers = [] if due is None else [(HEADER, b"%d" % due)]
        builder.append(0, None, b"v", headers)
    return Batch(key, RecordBatch(builder.build()), 0, len(due_ms))


def test_only_records_that_are_not_due_wait(monkeypatch) -> None:
    batches = [batch(A, 500, 1_000, 900), batch(B, None, 700)]
    monkeypatch.setattr(delays, "read_to_ends", lambda _, starts: batches)
    found = read_waiting(None, {A: 0, B: 0}, lambda: 600)
    assert [(each.due_ms, each.partition, each.record.offset) for each in found] == [
        (700, B, 1), (900, A, 2), (1_000, A, 1),
    ]  # fmt: skip


def test_nothing_is_read_from_no_partitions() -> None:
    assert read_waiting(None, {}, lambda: 0) == []
