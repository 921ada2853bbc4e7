"""A log in memory that may lose the records that were not flushed."""

from __future__ import annotations

import random

from odradek.log.leader_epochs import LeaderEpochs

Record = tuple[int, int]
"""The leader epoch and a number that no other record has."""


class ModelLog:
    """Implements `LogView` and the operations of brokers on a log."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.records: list[Record] = []
        """The records from the log start offset on."""
        self.epochs = LeaderEpochs()
        self.high_watermark = 0
        self.flushed = 0
        """Records below this offset survive a power loss."""
        self.checkpointed_high_watermark = 0

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def leader_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def between(self, start: int, end: int) -> list[Record]:
        first = self.log_start_offset
        return self.records[max(0, start - first) : max(0, end - first)]

    def append(self, records: list[Record]) -> None:
        for epoch, number in records:
            if epoch != self.epochs.latest:
                self.epochs.assign(epoch, self.log_end_offset)
            self.records.append((epoch, number))

    def truncate_to(self, offset: int) -> None:
        del self.records[max(0, offset - self.log_start_offset) :]
        self.epochs.truncate_from_end(self.log_end_offset)
        self.flushed = min(self.flushed, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.checkpointed_high_watermark = min(self.checkpointed_high_watermark, offset)

    def restart_at(self, offset: int) -> None:
        self.records.clear()
        self.epochs.clear()
        self.log_start_offset = self.high_watermark = self.flushed = offset

    def start_at(self, offset: int) -> None:
        offset = min(offset, self.log_end_offset)
        if offset > self.log_start_offset:
            del self.records[: offset - self.log_start_offset]
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.high_watermark = max(self.high_watermark, offset)
            self.flushed = max(self.flushed, offset)

    def set_high_watermark(self, offset: int) -> None:
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    def flush(self) -> None:
        self.flushed = self.log_end_offset
        self.checkpointed_high_watermark = self.high_watermark

    def crash(self, loses: bool, draw: random.Random) -> None:
        """Kill the process. If `loses`, lose some of the records that were not flushed."""
        if loses:
            end = self.log_end_offset
            lost_to = draw.randint(min(self.flushed, end), end)
            if lost_to < end:
                self.truncate_to(max(lost_to, self.log_start_offset))
        self.set_high_watermark(self.checkpointed_high_watermark)
