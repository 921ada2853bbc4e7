"""The batches of a producer, the results of their records, and the queue of each partition.

Sequence numbers (KIP-98) belong to a partition and an identity (producer id and epoch). A batch
gets its sequence number when it is first sent and keeps the number in retries, so that the broker
detects duplicates. A failed batch leaves a gap in the sequence. The partition then waits until no
batch is in flight, and continues with a new identity from sequence 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import NO_SEQUENCE, add_to_sequence
from odradek.records.builder import RecordBatchBuilder, seal

_PRODUCER_FIELDS = Struct(">qhi")
_PRODUCER_FIELDS_POSITION = 43
"""The position of producer id, producer epoch and base sequence in the header of a batch."""


NO_ERRORS: Mapping[int, str] = {}


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class ProducerBatch:
    """A batch that is open, ready, in flight, or done. `base_offset` is -1 if unknown."""

    __slots__ = (
        "base_offset",
        "base_sequence",
        "builder",
        "count",
        "created_ms",
        "data",
        "done",
        "error",
        "number",
        "record_errors",
        "timestamp_ms",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        number: int,
        builder: RecordBatchBuilder,
        created_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.number = number
        """The order of sending. Numbers increase within the partition."""
        self.builder: RecordBatchBuilder | None = builder
        self.created_ms = created_ms
        """The start of the delivery timeout, on the monotonic clock."""
        self.count = 0
        self.data = bytearray()
        self.base_sequence = NO_SEQUENCE
        self.base_offset = -1
        self.timestamp_ms = -1
        """The broker's log append time; -1 if the topic does not use it."""
        self.done = False
        self.error: ClientError | None = None
        self.record_errors: Mapping[int, str] = NO_ERRORS
        """The broker's message for each rejected record, by index (KIP-467)."""

    def close(self) -> None:
        """Encode the batch; no record can be added afterwards."""
        if self.builder is not None:
            self.count = self.builder.count
            self.data = self.builder.build()
            self.builder = None

    def stamp(self, identity: ProducerIdentity, base_sequence: int) -> None:
        """Write the identity and the base sequence into the encoded batch."""
        self.base_sequence = base_sequence
        _PRODUCER_FIELDS.pack_into(self.data, _PRODUCER_FIELDS_POSITION, *identity, base_sequence)
        seal(self.data)

    def forget_sequence(self) -> None:
        """Remove the sequence, so that the batch gets a sequence of a new identity."""
        self.base_sequence = NO_SEQUENCE

    def finish(
        self,
        base_offset: int = -1,
        timestamp_ms: int = -1,
        error: ClientError | None = None,
        record_errors: Mapping[int, str] = NO_ERRORS,
    ) -> None:
        """Complete a batch that was written at an offset or has failed."""
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.error = error
        self.record_errors = record_errors
        self.done = True
        self.data = bytearray()


class Delivery:
    """The result of sending a record. Read it after `Producer.flush`."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._batch.done

    @property
    def error(self) -> ClientError | None:
        """The reason why the record was not written. None if it was written or is not done."""
        return self._batch.error

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return self._batch.topic_partition

    @property
    def offset(self) -> int:
        """The offset of the record; -1 if unknown (not done, acks=0, or a duplicate)."""
        base = self._batch.base_offset
        return base + self._index if base >= 0 else -1


@dataclass(slots=True)
class PartitionQueue:
    """The batches of a partition, oldest first: in flight, then `ready`, then `open`."""

    topic_partition: TopicPartition
    open: ProducerBatch | None = None
    ready: deque[ProducerBatch] = field(default_factory=deque)
    in_flight: deque[ProducerBatch] = field(default_factory=deque)
    identity: ProducerIdentity | None = None
    next_sequence: int = 0
    draining: bool = False
    """Whether to send no batch until all batches in flight have a response."""
    identity_is_known: bool = False
    """Whether the broker has acknowledged a batch under this identity. Before that, at most one
    batch may be in flight. The reason is that a broker accepts any sequence as the first sequence
    of a new identity. So a later batch could be written before a batch that is sent again."""
    identity_is_spent: bool = False
    """Whether a batch has failed, so that the partition must continue with another identity."""
    retry_at_ms: int = 0

    def may_send(self, now_ms: int) -> bool:
        """Whether the oldest batch can be sent now."""
        if not self.ready or self.draining or now_ms < self.retry_at_ms:
            return False
        return self.identity_is_known or self.identity is None or not self.in_flight

    def begin(self, number: int, builder: RecordBatchBuilder, now_ms: int) -> ProducerBatch:
        """Open a batch for the following records."""
        self.open = ProducerBatch(self.topic_partition, number, builder, now_ms)
        return self.open

    def close(self) -> ProducerBatch:
        """Encode the open batch, which is then ready to be sent."""
        assert self.open is not None
        batch, self.open = self.open, None
        batch.close()
        self.ready.append(batch)
        return batch

    def take(self) -> ProducerBatch:
        """Put the oldest batch in flight and return it; assign its sequence if it has none."""
        batch = self.ready.popleft()
        if self.identity is not None and batch.base_sequence == NO_SEQUENCE:
            batch.stamp(self.identity, self.next_sequence)
            self.next_sequence = add_to_sequence(self.next_sequence, batch.count)
        self.in_flight.append(batch)
        return batch

    def settle(self, batch: ProducerBatch) -> None:
        """Remove a completed batch from `in_flight`."""
        self.in_flight.remove(batch)
        self.identity_is_known |= batch.error is None
        self.retry_at_ms = 0
        self._after_answer()

    def put_back(self, batch: ProducerBatch, retry_at_ms: int) -> None:
        """Move a batch back to `ready` for a retry. Later batches stay behind this batch."""
        self.in_flight.remove(batch)
        behind = 0
        while behind < len(self.ready) and self.ready[behind].number < batch.number:
            behind += 1
        self.ready.insert(behind, batch)
        self.draining = True
        self.retry_at_ms = retry_at_ms
        self._after_answer()

    def spend_identity(self) -> None:
        """Mark the identity as spent, because a batch has failed."""
        if self.identity is not None:
            self.identity_is_spent = True
            self.draining = True

    def renew(self, identity: ProducerIdentity) -> None:
        """Continue with a new identity. Batches that will be retried get new sequences."""
        assert not self.in_flight
        self.identity = identity
        self.identity_is_known = False
        self.identity_is_spent = False
        self.draining = False
        self.next_sequence = 0
        for batch in self.ready:
            batch.forget_sequence()

    def _after_answer(self) -> None:
        if not self.in_flight and not self.identity_is_spent:
            self.draining = False
