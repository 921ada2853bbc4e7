"""Appends batches that have their offsets already.

A follower gets such batches from the leader, and the leader of the metadata log builds them itself.
All batches of a payload are checked (`given_batches`) before the first one is appended. Consecutive
batches are written in one call if they need no roll and change no transaction.
"""

from __future__ import annotations

from typing import Final

from odradek.log.errors import RecordsRefused
from odradek.log.given_batches import GivenBatch, given_batches
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_end import GIVEN, LogEnd
from odradek.log.origin import AppendOrigin
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.results import AppendInfo
from odradek.log.segment import AppendedBatch
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import SEQUENCE_MAX, Buffer, RecordBatch
from odradek.records.errors import CorruptBatch, InvalidRecords

_RUN_BYTES_MAX: Final = 1 << 20


class GivenAppender:
    """Appends batches with given offsets to one log. It has no state of its own."""

    __slots__ = ("_end", "_epochs", "_producers", "_topic_partition")

    def __init__(
        self,
        end: LogEnd,
        producers: ProducerStateManager,
        epochs: LeaderEpochs,
        topic_partition: TopicPartition,
    ) -> None:
        self._end = end
        self._producers = producers
        self._epochs = epochs
        self._topic_partition = topic_partition

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendInfo | None:
        """Append batches as the leader sent them. Return None if the payload has no complete batch.

        If a batch has a leader epoch above `leader_epoch`, this batch and the following ones are
        ignored (KAFKA-18723).

        Raises:
            RecordsRefused: a batch is damaged, or its offsets do not continue this log, and nothing
                was appended. Or a batch contradicts the state of its producer, and the batches
                before it may have been appended.
            DiskFull, LogDirectoryOffline: the disk is full, or has failed now or earlier. The first
                batches may have been appended. The log end offset is after these batches.
        """
        self._end.check_ready()
        return self.append(records, leader_epoch, AppendOrigin.REPLICATION)

    def append(self, records: Buffer, leader_epoch: int, origin: AppendOrigin) -> AppendInfo | None:
        """Append batches of this origin; see `append_as_follower`. The log is ready."""
        view = memoryview(records)
        try:
            batches = list(
                given_batches(
                    view,
                    self._end.log_end_offset,
                    leader_epoch,
                    origin,
                    self._end.segment_bytes,
                    self._topic_partition,
                )
            )
            if not batches:
                return None
            run: list[GivenBatch] = []
            for batch in batches:
                if batch.leader_epoch >= 0 and batch.leader_epoch != self._epochs.latest:
                    self._epochs.assign(batch.leader_epoch, batch.base_offset)
                if run and not self._may_join(run, batch):
                    self._append_run(view, run)
                    run = []
                if not run and not self._may_begin_run(batch):
                    self._append_one(view, batch, origin)
                else:
                    run.append(batch)
            if run:
                self._append_run(view, run)
        except CorruptBatch as error:
            raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        except InvalidRecords as error:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error)) from None
        return self._end.info(batches[0].base_offset, batches[-1].last_offset)

    def _may_begin_run(self, batch: GivenBatch) -> bool:
        """Return whether the batch needs no roll and changes no transaction."""
        return self._end.has_room(
            batch.size, batch.max_timestamp, batch.last_offset
        ) and self._is_plain(batch)

    def _is_plain(self, batch: GivenBatch) -> bool:
        """Return whether the batch changes no transaction."""
        return (
            batch.producer_id < 0
            or self._producers.plain_entry(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.attributes
            )
            is not None
        )

    def _may_join(self, run: list[GivenBatch], batch: GivenBatch) -> bool:
        run_bytes = run[-1].position + run[-1].size - run[0].position
        size = run_bytes + batch.size
        return (
            size <= _RUN_BYTES_MAX
            and self._end.has_room(size, batch.max_timestamp, batch.last_offset)
            and self._is_plain(batch)
        )

    def _append_run(self, view: memoryview, run: list[GivenBatch]) -> None:
        """Append several batches in one write."""
        begin, end = run[0].position, run[-1].position + run[-1].size
        batches = [
            AppendedBatch(each.size, each.base_offset, each.last_offset, each.max_timestamp)
            for each in run
        ]
        self._end.append_run(view[begin:end], batches)
        for each in run:
            if each.producer_id >= 0:
                delta = each.last_offset - each.base_offset
                self._producers.entries[each.producer_id].add_batch(
                    each.producer_epoch,
                    (each.base_sequence + delta) & SEQUENCE_MAX,
                    each.last_offset,
                    delta,
                    each.max_timestamp,
                )

    def _append_one(self, view: memoryview, given: GivenBatch, origin: AppendOrigin) -> None:
        data = view[given.position : given.position + given.size]
        changes = completed = None
        if given.producer_id >= 0:
            changes = self._producers.prepare(given.producer_id, origin)
            completed = changes.add(RecordBatch(data), given.base_offset)
        self._end.append(
            data,
            given.size,
            given.base_offset,
            given.last_offset,
            given.max_timestamp,
            GIVEN,
            completed,
        )
        if changes is not None:
            self._producers.update(changes, completed)
