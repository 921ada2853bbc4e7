"""The records that share groups deliver later."""

from __future__ import annotations

from odradek.core.share.schedule import HEADER
from odradek.model.topic_partition import TopicPartition
from odradek.operations import delays
from odradek.operations.delays import read_waiting
from odradek.records.record import Record

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def record(offset: int, due_ms: int | None) -> Record:
    headers = () if due_ms is None else ((HEADER, b"%d" % due_ms),)
    return Record(offset, 0, None, b"v", headers)


class Consumer:
    """Returns the records of two partitions. One was appended after the ends were read."""

    def __init__(self, _cluster, *, reset_to) -> None:
        self.positions: dict[TopicPartition, int] = {}

    def assign(self, starts) -> None:
        self.positions = dict(starts)

    def drop(self, partitions) -> None:
        for each in partitions:
            del self.positions[each]

    def poll(self, _timeout_ms):
        self.positions = {A: 4, B: 2}
        return {
            A: [record(0, 500), record(1, 1_000), record(2, 900), record(3, 2_000)],
            B: [record(0, None), record(1, 700)],
        }


def test_only_records_that_are_not_due_wait(monkeypatch) -> None:
    monkeypatch.setattr(delays, "Consumer", Consumer)
    monkeypatch.setattr(delays, "offsets_at", lambda *_: {A: 3, B: 2})
    found = read_waiting(None, {A: 0, B: 0}, lambda: 600)
    assert [(each.due_ms, each.partition, each.record.offset) for each in found] == [
        (700, B, 1), (900, A, 2), (1_000, A, 1),
    ]  # fmt: skip


def test_nothing_is_read_from_no_partitions() -> None:
    assert read_waiting(None, {}, lambda: 0) == []
