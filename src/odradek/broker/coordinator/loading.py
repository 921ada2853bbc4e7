"""Replays the log of a partition into its state machine, without blocking the event loop.

The log is replayed up to its end, as in Apache Kafka, not up to the high watermark. The log of the
leader is what all replicas will have; a new leader does not drop the records that earlier leaders
have left above the high watermark. The high watermark passes them when the followers have them.
Until then, no response of the shard is sent, because it may depend on them (`Shard.activate`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.core.coordinator.machine import CoordinatorMachine
from odradek.core.coordinator.record import decode
from odradek.env.clock import Clock
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.control import read_end_of_transaction
from odradek.records.record import iterate_fields

SLICE_MS = 2
"""After this much time the loader yields to the event loop."""
RECORDS_PER_LOOK = 100
"""Number of records between two reads of the clock."""


class Loaded(NamedTuple):
    """The end offset of the log, what was replayed, and how long that took."""

    end_offset: int
    records: int
    bytes: int
    duration_ms: int


class Loader:
    """Loads one partition. `buffer_bytes` is the size of each read."""

    def __init__(
        self,
        partition: CoordinatorPartition,
        machine: CoordinatorMachine,
        clock: Clock,
        buffer_bytes: int,
    ) -> None:
        self._partition = partition
        self._machine = machine
        self._clock = clock
        self._buffer_bytes = buffer_bytes
        self._slice_end_ms = 0
        self._records = 0

    async def load(self) -> Loaded:
        """Replay all records from the start of the log to its end.

        Raises:
            ApiError: the log cannot be read.
            MalformedRecord, CorruptBatch, InvalidRecords: the log is corrupt.
        """
        partition = self._partition
        started_ms = self._clock.monotonic_ms()
        self._slice_end_ms = started_ms + SLICE_MS
        offset = partition.start_offset
        size = 0
        self._machine.journal.pause()
        while offset < partition.end_offset:
            data = await partition.read(offset, self._buffer_bytes)
            if not data:
                break
            size += len(data)
            self._slice_end_ms = self._clock.monotonic_ms() + SLICE_MS
            for batch in iterate_batches(data):
                await self._replay_batch(batch)
                offset = batch.next_offset
        self._machine.journal.resume()
        duration_ms = self._clock.monotonic_ms() - started_ms
        return Loaded(max(offset, partition.end_offset), self._records, size, duration_ms)

    async def _replay_batch(self, batch: RecordBatch) -> None:
        machine = self._machine
        if batch.is_control:
            end = read_end_of_transaction(batch)
            if end is not None:
                machine.replay_end_of_transaction(
                    batch.producer_id, batch.producer_epoch, end.committed
                )
            return
        quick = machine.quick_replay
        producer_id = batch.producer_id
        for offset, key, value in iterate_fields(batch):
            self._records += 1
            if self._records % RECORDS_PER_LOOK == 0:
                await self._yield_to_loop()
            if quick is not None and quick(offset, producer_id, key, value):
                continue
            decoded = decode(key, value, machine.messages)
            if decoded is not None:
                machine.replay(offset, producer_id, batch.producer_epoch, decoded)

    async def _yield_to_loop(self) -> None:
        if self._clock.monotonic_ms() >= self._slice_end_ms:
            await asyncio.sleep(0)
            self._slice_end_ms = self._clock.monotonic_ms() + SLICE_MS
