"""The batches of one partition: in which order they are sent, and with which sequence numbers.

Sequence numbers belong to a partition and an identity (producer id and epoch). These rules keep the
order and prevent duplicates, as in Kafka's `TransactionManager`:

- A batch that is sent again keeps its number. While one waits for that, all batches before it must
  have an answer, and then one batch at a time is sent.
- Until the first batch of an identity is acknowledged, only that batch is in flight, because a broker
  accepts any number as the first one (docs/decisions/client-first-batch-alone.md).
- If a batch fails for good, no broker has the later ones, as their numbers leave a gap. The partition
  *must renew* its identity: when nothing is in flight, all batches get new numbers from 0.
- If a batch expires that was sent, nobody knows whether a broker has it: the sequence is *unresolved*.
  No new batch is sent until the others have an answer. They tell whether there is a gap.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from odradek.client.core.producer_batch import ProducerBatch, ProducerIdentity, Waiter
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import add_to_sequence
from odradek.records.compression import Codec

if TYPE_CHECKING:
    from mypy_extensions import i64

IN_FLIGHT_MAX: Final = 5
"""The number of batches per producer and partition that brokers remember, and so detect again."""
BEFORE_ALL: Final = -1
"""The last acknowledged sequence number of an identity that has none."""


class PartitionQueue:
    """The batches of a partition, oldest first: in flight, then `ready`, then `open`."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.open: ProducerBatch | None = None
        self.ready: deque[ProducerBatch] = deque()
        self.in_flight: deque[ProducerBatch] = deque()
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.must_renew = False
        self.is_unresolved = False
        self.retry_at_ms = 0
        self._last_acknowledged = BEFORE_ALL
        self._is_known = False
        """Whether the broker has acknowledged a batch under this identity."""
        self._number = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is no batch."""
        return self.open is None and not self.ready and not self.in_flight

    @property
    def length(self) -> int:
        """The number of batches that wait for being sent."""
        return len(self.ready) + (self.open is not None)

    @property
    def may_close(self) -> bool:
        """Whether the open batch could be sent soon. If not, more records may be added."""
        return not self.ready and len(self.in_flight) < IN_FLIGHT_MAX

    @property
    def has_sequenced(self) -> bool:
        """Whether a batch with a sequence number is not done. Those in `ready` come first."""
        return bool(self.in_flight) or (bool(self.ready) and self.ready[0].has_sequence)

    def begin(self, now_ms: int, limit_bytes: i64, waiter: Waiter | None) -> ProducerBatch:
        """Open a batch for the following records."""
        assert self.open is None, "one batch is open at a time"
        self._number += 1
        batch = ProducerBatch(self.topic_partition, self._number, now_ms, limit_bytes, waiter)
        self.open = batch
        return batch

    def close(self, codec: Codec, level: int | None, *, is_transactional: bool) -> ProducerBatch:
        """Encode the open batch, which is then ready to be sent."""
        batch = self.open
        assert batch is not None
        self.open = None
        batch.close(codec, level, is_transactional=is_transactional)
        self.ready.append(batch)
        return batch

    def add(
        self,
        records: bytes | bytearray | memoryview,
        count: int,
        codec: Codec,
        timestamp: int,
        now_ms: int,
        *,
        is_transactional: bool,
    ) -> ProducerBatch:
        """Add a batch of records that are encoded already."""
        batch = self.begin(now_ms, 0, None)
        self.open = None
        batch.fill(records, count, codec, timestamp, is_transactional=is_transactional)
        self.ready.append(batch)
        return batch

    # -- sending ------------------------------------------------------------------------------

    def may_send(self, now_ms: int, in_flight_max: int) -> bool:
        """Whether the oldest batch can be sent now."""
        if not self.ready or self.must_renew or now_ms < self.retry_at_ms:
            return False
        if not self.in_flight:
            return self.ready[0].has_sequence or not self.is_unresolved
        if len(self.in_flight) >= in_flight_max:
            return False
        if self.identity is None:
            return True
        return self._is_known and not self.ready[0].has_sequence and not self.is_unresolved

    def take(self) -> ProducerBatch:
        """Put the oldest batch in flight and return it; assign its sequence if it has none."""
        batch = self.ready.popleft()
        if self.identity is None:
            if not batch.was_sent:
                batch.stamp(None, 0)
        elif not batch.has_sequence:
            batch.stamp(self.identity, self.next_sequence)
            self.next_sequence = add_to_sequence(self.next_sequence, batch.count)
        batch.sent()
        self.in_flight.append(batch)
        return batch

    # -- outcomes -----------------------------------------------------------------------------

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Remove a batch that is written."""
        self._remove(batch)
        self.retry_at_ms = 0
        if batch.has_sequence:
            self._is_known = True
            last = add_to_sequence(batch.base_sequence, batch.count - 1)
            self._last_acknowledged = last

    def is_next(self, batch: ProducerBatch) -> bool:
        """Whether the broker must expect the sequence number of a batch."""
        following = 0
        if self._last_acknowledged != BEFORE_ALL:
            following = add_to_sequence(self._last_acknowledged, 1)
        return batch.base_sequence == following

    def put_back(self, batch: ProducerBatch, error: ClientError, retry_at_ms: int) -> None:
        """Move a batch back to `ready` for a retry. Later batches stay behind this batch."""
        batch.failed(error)
        self.in_flight.remove(batch)
        self._insert([batch])
        self.retry_at_ms = retry_at_ms

    def divide(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Send the parts of a batch that was in flight in its place."""
        self.in_flight.remove(batch)
        batch.divide(parts)
        self._insert(parts)
        self.retry_at_ms = 0

    def _insert(self, batches: list[ProducerBatch]) -> None:
        """Put batches that follow one another into `ready`, before those that are sent later."""
        behind = 0
        while behind < len(self.ready) and self.ready[behind].is_before(batches[0]):
            behind += 1
        for each in batches:
            self.ready.insert(behind, each)
            behind += 1

    def given_up(self, batch: ProducerBatch, *, is_unknown: bool) -> None:
        """Remove a batch that has failed. `is_unknown` says that a broker may have it."""
        self._remove(batch)
        self.retry_at_ms = 0
        if not batch.has_sequence:
            return
        if is_unknown:
            self.is_unresolved = True
        else:
            self.must_renew = True

    def _remove(self, batch: ProducerBatch) -> None:
        if batch is self.open:
            self.open = None
        elif batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.ready.remove(batch)

    def hurry(self) -> None:
        """Do not wait before the next retry, because another broker leads the partition now."""
        self.retry_at_ms = 0

    # -- identity -----------------------------------------------------------------------------

    def demand_renewal(self) -> None:
        """Continue with another identity when nothing is in flight."""
        self.must_renew = True

    def settle(self) -> None:
        """After an expired batch: if all others have an answer, find out whether there is a gap."""
        if self.is_unresolved and not self.has_sequenced:
            self.is_unresolved = False
            following = 0
            if self._last_acknowledged != BEFORE_ALL:
                following = add_to_sequence(self._last_acknowledged, 1)
            self.must_renew = self.must_renew or following != self.next_sequence

    def renew(self, identity: ProducerIdentity) -> None:
        """Continue with a new identity. No broker has the batches that wait: they are renumbered."""
        assert not self.in_flight
        self.identity = identity
        self.must_renew = False
        self.is_unresolved = False
        self.next_sequence = 0
        self._is_known = False
        self._last_acknowledged = BEFORE_ALL
        for batch in self.ready:
            batch.forget_sequence()

    def resume(self, identity: ProducerIdentity, next_sequence: int) -> None:
        """Continue the sequence numbers of another process, which have all been acknowledged."""
        assert not self.has_sequenced
        self.renew(identity)
        self.next_sequence = next_sequence
        if next_sequence > 0:
            self._is_known = True
            self._last_acknowledged = next_sequence - 1
