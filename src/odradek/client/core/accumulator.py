"""Collects records in the open batches of their partitions.

A record is encoded at once (`record_encoder`). `offer` is the fast path: it adds a record to a batch that
is open and has room. `append` also begins batches. The owner calls `append` if `offer` refuses.

`active` has the queues with batches that are not done. The owner sends them (`producer`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.client.core.backoff import RandomNumber
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.partitioners import KeyPartitioner
from odradek.client.core.producer_batch import Delivery, ProducerBatch, Waiter
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.routes import Routes
from odradek.client.core.topic_queues import TopicQueues
from odradek.client.core.transaction import TransactionMachine
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec

if TYPE_CHECKING:
    from mypy_extensions import i64


class Accumulator:
    """The records of a producer that are not written."""

    def __init__(
        self,
        settings: ProducerSettings,
        routes: Routes,
        random: RandomNumber,
        transaction: TransactionMachine | None,
        waiter: Waiter | None,
    ) -> None:
        self.active: dict[TopicPartition, PartitionQueue] = {}
        """Queues with batches."""
        self.buffered_bytes = 0
        """The size of all batches that are not done, before compression."""
        self.has_due = False
        """Whether a batch can be sent at once."""
        self._routes = routes
        self._random = random
        self._transaction = transaction
        self._waiter = waiter
        self._batch_bytes = settings.batch_bytes
        self._codec = settings.codec
        self._level = settings.compression_level
        self._lingers = settings.linger_ms > 0
        self._offer_bytes_max = settings.buffer_bytes - settings.batch_bytes
        """While less is buffered, a record needs no check whether there is room."""
        self._must_check = False
        """Whether records need more checks than those of `offer`."""
        self._keys = KeyPartitioner(settings.partitioner, ignores_keys=settings.ignores_keys)
        self._topics: dict[str, TopicQueues] = {}
        self._current: dict[str, TopicQueues] = {}
        """The topics whose metadata are current."""
        self._current_at_ms = -1

    def topic(self, name: str, now_ms: int) -> TopicQueues | None:
        """Return the queues of a topic; None while the topic is unknown, which is asked for."""
        known = self._routes.topic(name, now_ms)
        if known is None:
            return None
        found = self._topics.get(name)
        if found is None:
            found = TopicQueues(known, self._random, self._batch_bytes)
            self._topics[name] = found
        elif found.topic is not known:
            found.update(known)
        if self._current_at_ms != self._routes.metadata_at_ms:
            self._current_at_ms = self._routes.metadata_at_ms
            self._current.clear()
        self._current[name] = found
        return found

    def partition_of(self, topic: TopicQueues, key: bytes | None) -> int:
        """Choose the partition of a record; -1 for the sticky one."""
        return self._keys.partition(key, len(topic.queues))

    def offer(
        self,
        name: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        timestamp: i64,
        callback: Callable[[Delivery], None] | None,
    ) -> Delivery | None:
        """Add a record, if that needs neither a wait nor a new batch; else return None.

        This is the fast path of `append`, which most records take.
        """
        topic = self._current.get(name)
        if topic is None or self.buffered_bytes >= self._offer_bytes_max or self._must_check:
            return None
        sticks = False
        chosen: i64
        if partition is not None:
            chosen = partition
        elif key is None and self._keys.draws_null:
            chosen = topic.sticky.current
            sticks = True
        else:
            chosen = self._keys.partition(key, len(topic.queues))
            if chosen < 0:
                chosen = topic.sticky.current
                sticks = True
        if chosen < 0 or chosen >= len(topic.queues):
            return None
        batch = topic.queues[chosen].open
        if batch is None:
            return None
        encoder = batch.encoder
        assert encoder is not None
        before: i64 = encoder.size
        if not encoder.append(timestamp, key, value, headers):
            return None
        size: i64 = encoder.size - before
        self.buffered_bytes += size
        if sticks:
            topic.sticky.sent(size, is_full=False)
        index: i64 = encoder.count - 1
        if callback is not None:
            batch.add_callback(index, callback)
        return Delivery(batch, index)

    def offer_values(
        self, name: str, values: list[bytes | None], start: i64, timestamp: i64
    ) -> tuple[i64, ProducerBatch | None]:
        """Add values from `start` on without keys to an open batch. Return where this ends, and it."""
        topic = self._current.get(name)
        if topic is None or self._must_check:
            return start, None
        chosen: i64 = topic.sticky.current
        if chosen < 0 or not self._keys.draws_null:
            return start, None
        batch = topic.queues[chosen].open
        if batch is None:
            return start, None
        encoder = batch.encoder
        assert encoder is not None
        before: i64 = encoder.size
        room: i64 = self._offer_bytes_max - self.buffered_bytes + before
        end: i64 = len(values)
        position: i64 = start
        while position < end and encoder.size < room:
            if not encoder.append(timestamp, None, values[position], None):
                break
            position += 1
        size: i64 = encoder.size - before
        self.buffered_bytes += size
        topic.sticky.sent(size, is_full=False)
        return position, batch

    def append(
        self,
        topic: TopicQueues,
        partition: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        timestamp: i64,
        now_ms: i64,
        callback: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Add a record. With partition -1 it goes to the partition of records without a key."""
        sticks = partition < 0
        if sticks:
            partition = topic.sticky.current
            if partition < 0:
                partition = topic.choose()
        queue = topic.queues[partition]
        batch = queue.open
        if batch is None:
            batch = self._begin(queue, now_ms)
        encoder = batch.encoder
        assert encoder is not None
        before: i64 = encoder.size
        is_full = False
        if not encoder.append(timestamp, key, value, headers):
            self.close(queue)
            is_full = True
            batch = self._begin(queue, now_ms)
            encoder = batch.encoder
            assert encoder is not None
            before = encoder.size
            encoder.append(timestamp, key, value, headers)
        size: i64 = encoder.size - before
        self.buffered_bytes += size
        index: i64 = encoder.count - 1
        if callback is not None:
            batch.add_callback(index, callback)
        delivery = Delivery(batch, index)
        if encoder.size >= self._batch_bytes:
            self.close(queue)
            is_full = True
        if sticks:
            topic.sticky.sent(size, is_full=is_full)
        return delivery

    def _begin(self, queue: PartitionQueue, now_ms: int) -> ProducerBatch:
        batch = queue.begin(now_ms, self._batch_bytes, self._waiter)
        self._activate(queue)
        self.buffered_bytes += batch.size
        if not self._lingers:
            self.has_due = True
        return batch

    def _activate(self, queue: PartitionQueue) -> None:
        self.active[queue.topic_partition] = queue
        if self._transaction is not None:
            self._transaction.use(queue.topic_partition)

    def close(self, queue: PartitionQueue) -> None:
        """Close the open batch of a queue."""
        queue.close(self._codec, self._level, is_transactional=self._transaction is not None)
        self.has_due = True

    def add_encoded(
        self,
        topic: TopicQueues,
        partition: int,
        records: bytes | bytearray | memoryview,
        count: int,
        codec: Codec,
        timestamp: int,
        now_ms: int,
    ) -> ProducerBatch:
        """Add a batch of records that are encoded already, all with the same timestamp."""
        queue = topic.queues[partition]
        if queue.open is not None:
            self.close(queue)
        batch = queue.add(
            records,
            count,
            codec,
            timestamp,
            now_ms,
            is_transactional=self._transaction is not None,
        )
        self._activate(queue)
        self.buffered_bytes += batch.size
        self.has_due = True
        return batch

    def resume(self, topic: TopicQueues, partition: int, next_sequence: int) -> None:
        """Continue the sequence numbers of another process in a transaction that was joined."""
        assert self._transaction is not None
        assert self._transaction.identity is not None
        topic.queues[partition].resume(self._transaction.identity, next_sequence)

    # -- the owner ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Close all batches that are open now."""
        for queue in self.active.values():
            if queue.open is not None:
                self.close(queue)

    def hurry(self, batch: ProducerBatch) -> None:
        """Close a batch, if it is open."""
        queue = self.active.get(batch.topic_partition)
        if queue is not None and queue.open is batch:
            self.close(queue)

    def sending(self, *, must_check: bool) -> None:
        """Note that everything is sent that can be. `must_check` is about the next records."""
        self.has_due = False
        self._must_check = must_check
        if self._current_at_ms != self._routes.metadata_at_ms:
            self._current.clear()

    def must_check(self) -> None:
        """Refuse `offer` until the next call of `sending`."""
        self._must_check = True

    def divided(self, batch: ProducerBatch) -> None:
        """Count the parts of a batch instead of the batch."""
        self.buffered_bytes += sum([each.size for each in batch.parts]) - batch.size
        self.has_due = True

    def release(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Forget a batch that is done."""
        encoder = batch.encoder
        self.buffered_bytes -= batch.size if encoder is None else encoder.size
        if queue.is_idle:
            self.active.pop(queue.topic_partition, None)
