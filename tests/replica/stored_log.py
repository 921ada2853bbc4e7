"""A real log on a disk that loses unflushed records. A model log checks each step."""

from __future__ import annotations

import random

from tests.log.support import NOW_MS, TOPIC_ID, LogWorkspace, read_records, topic_config
from tests.replica.model_log import ModelLog, Record

from odradek.log import PartitionLog
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder
from odradek.sim.lossy_file_system import LossyFileSystem

PARTITION = TopicPartition("topic", 0)
SETTINGS = {
    "segment_bytes": 1200,
    "index_interval_bytes": 150,
    "retention_ms": -1,
    "file_delete_delay_ms": 0,
}


class StoredLog(ModelLog):
    """Each record is a batch, so that a log can be truncated at each offset."""

    def __init__(self) -> None:
        super().__init__()
        self._files = LossyFileSystem()
        self._open()

    def _open(self) -> None:
        workspace = LogWorkspace("/data", self._files)
        self._manager = workspace.manager(
            overrides={"num.recovery.threads.per.data.dir": "1"},
            topic_configs=lambda _: topic_config(**SETTINGS),
        )
        self._manager.start()
        found = self._manager.get(PARTITION)
        self.log: PartitionLog = found or self._manager.get_or_create(
            PARTITION, TOPIC_ID, is_new=True
        )
        self.epochs = self.log.leader_epochs
        """The same object as the log's, so that both have what brokers assign."""

    def _check(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (
            self.log_start_offset,
            self.log_end_offset,
        )
        assert log.high_watermark == self.high_watermark

    def append(self, records: list[Record]) -> None:
        payload, offset = bytearray(), self.log_end_offset
        for epoch, number in records:
            builder = RecordBatchBuilder()
            builder.append(NOW_MS, None, b"%d" % number)
            batch = builder.build()
            batch[0:8] = offset.to_bytes(8, "big")
            batch[12:16] = epoch.to_bytes(4, "big")
            payload += batch
            offset += 1
        if records:
            self.log.append_as_follower(payload, max(epoch for epoch, _ in records))
        self.records += records
        self._check()

    def truncate_to(self, offset: int) -> None:
        if offset < self.log.segments.bases[0]:
            self.restart_at(offset)
            return
        self.log.truncate_to(offset)
        start = min(self.log_start_offset, offset)
        super().truncate_to(offset)
        self.log_start_offset = start
        self._check()

    def restart_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        super().restart_at(offset)
        self._check()

    def start_at(self, offset: int) -> None:
        offset = min(offset, self.log_end_offset)
        self.log.high_watermark = max(self.log.high_watermark, offset)
        self.log.delete_records_before(offset)
        self.log.delete_old_segments()
        super().start_at(offset)
        self._check()

    def set_high_watermark(self, offset: int) -> None:
        super().set_high_watermark(offset)
        self.log.high_watermark = self.high_watermark

    def flush(self) -> None:
        self.log.flush()
        super().flush()

    def crash(self, loses: bool, draw: random.Random) -> None:
        files = self._files
        self._files = files.crash(draw) if loses else LossyFileSystem(files.root)
        before, start, end = self.records, self.log_start_offset, self.log_end_offset
        kept_to = self.log.recovery_point if loses else end
        self._open()
        log = self.log
        found = read_records(log, log.log_start_offset)
        assert log.log_start_offset <= start
        assert log.log_end_offset >= kept_to, "flushed records are lost"
        self.records = [
            (log.leader_epochs.epoch_for(each.offset), int(each.value)) for each in found
        ]
        self.log_start_offset = log.log_start_offset
        assert self.log_end_offset == log.log_end_offset
        after, expected = self.between(start, end), before[: max(0, self.log_end_offset - start)]
        assert after == expected, self.epochs.entries
        self.flushed = min(self.flushed, self.log_end_offset)
        self.high_watermark = log.high_watermark
