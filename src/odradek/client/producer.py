"""Writes records in batches per partition, with several requests in flight.

    send -> open batch -> (full, or lingered) ready -> in flight -> done
                                                ^----- retriable error, broken connection

There is no thread. The producer works in `poll`, in `flush`, and in `send` when a batch or the
buffer is full. Up to `in_flight_max` requests are in flight to a broker. The module `sender` sends
requests and processes responses. Idempotence (KIP-98) prevents duplicates after retries and keeps
the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import (
    ClientError,
    NoSuchTopicError,
    NotDeliveredError,
    RequestTimeoutError,
)
from odradek.client.partitioner import StickyPartitioner, partition_for_key
from odradek.client.producer_batch import Delivery, PartitionQueue, ProducerBatch
from odradek.client.producer_options import ProducerOptions
from odradek.client.sender import Sender
from odradek.env.clock import Clock, SystemClock
from odradek.env.randomness import RandomBytes, system_random_bytes
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder

RECORD_OVERHEAD_BYTES = 16
"""Approximate size of a record without its key and value, in bytes."""


class Producer:
    """A producer. At the end of a `with` statement without an exception, the producer flushes.

    `on_batch`, if given, is called with each completed batch.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions | None = None,
        *,
        on_batch: Callable[[ProducerBatch], None] | None = None,
        clock: Clock | None = None,
        random_bytes: RandomBytes = system_random_bytes,
    ) -> None:
        """Raise ValueError if the options contradict each other."""
        self.options = options or ProducerOptions()
        if self.options.idempotent and (self.options.acks != -1 or self.options.in_flight_max > 5):
            raise ValueError(
                "an idempotent producer needs acks=all and at most 5 requests in flight"
            )
        self._cluster = cluster
        self._on_batch = on_batch
        self._now_ms = (clock or SystemClock()).now_ms
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._open: dict[TopicPartition, PartitionQueue] = {}
        self._sticky = StickyPartitioner(random_bytes, self.options.batch_bytes)
        self._sender = Sender(cluster, self.options, self._batch_done)
        self._first_error: ClientError | None = None
        self._failed_count = 0
        self._batch_number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.flush()

    # -- sending ----------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Add a record to a batch. The batch is sent when it is full or its linger time has passed.

        Raises:
            NoSuchTopicError: the topic does not exist and may not be created, or the partition does
                not exist.
            ClientError: no broker is reachable, or the buffer (`buffer_bytes_max`) is full for
                longer than `delivery_timeout_ms`.
        """
        size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
        queue = self._queue(topic, key, partition, size)
        batch = queue.open
        if batch is not None:
            assert batch.builder is not None
            if batch.builder.size + size > self.options.batch_bytes:
                self._send_batch(queue)
                batch = None
        if batch is None:
            self._make_room(size)
            batch = self._new_batch(queue)
        assert batch.builder is not None
        index = batch.builder.append(
            self._now_ms() if timestamp_ms is None else timestamp_ms, key, value, headers
        )
        if batch.builder.size >= self.options.batch_bytes:
            self._send_batch(queue)
        return Delivery(batch, index)

    def _queue(
        self, topic: str, key: bytes | None, partition: int | None, size: int
    ) -> PartitionQueue:
        if partition is None:
            known = self._cluster.topic(topic, create=self.options.create_topics)
            if key is None:
                partition = self._sticky.partition(known, size)
            else:
                partition = partition_for_key(key, len(known.partitions))
        topic_partition = TopicPartition(topic, partition)
        queue = self._queues.get(topic_partition)
        if queue is None:
            known = self._cluster.topic(topic, create=self.options.create_topics)
            if partition not in known.partitions:
                raise NoSuchTopicError(topic, partition)
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def _new_batch(self, queue: PartitionQueue) -> ProducerBatch:
        builder = RecordBatchBuilder(
            codec=self.options.compression, level=self.options.compression_level
        )
        self._batch_number += 1
        batch = queue.begin(self._batch_number, builder, monotonic_ms())
        self._open[queue.topic_partition] = queue
        return batch

    def _send_batch(self, queue: PartitionQueue) -> None:
        self._close(queue)
        self._close_lingering()
        self._sender.work(0)

    def _close(self, queue: PartitionQueue) -> None:
        del self._open[queue.topic_partition]
        self._sender.add(queue, queue.close())

    def _close_lingering(self) -> None:
        """Close the batches that have been open for at least `linger_ms`."""
        before_ms = monotonic_ms() - self.options.linger_ms
        for queue in [q for q in self._open.values() if q.open and q.open.created_ms <= before_ms]:
            self._close(queue)

    def _make_room(self, size: int) -> None:
        """Wait while the buffer is full."""
        if self._sender.buffered_bytes + size <= self.options.buffer_bytes_max:
            return
        deadline = Deadline(self.options.delivery_timeout_ms)
        while self._sender.buffered_bytes + size > self.options.buffer_bytes_max:
            if deadline.expired:
                raise RequestTimeoutError("the broker accepts no records; the buffer is full")
            self._sender.work(min(deadline.remaining_ms, 1000))

    # -- delivery ---------------------------------------------------------------------------

    def poll(self) -> None:
        """Send the batches that are due and process responses that have arrived; do not wait."""
        self._close_lingering()
        self._sender.work(0)

    def flush(self) -> None:
        """Send all batches and wait until each is written or has failed.

        Raises:
            NotDeliveredError: some records since the last flush were not written.
        """
        for queue in list(self._open.values()):
            self._close(queue)
        while self._sender.buffered_bytes:
            self._sender.work(1000)
        if self._first_error is not None:
            count, error = self._failed_count, self._first_error
            self._first_error, self._failed_count = None, 0
            records = "1 record was" if count == 1 else f"{count} records were"
            raise NotDeliveredError(f"{records} not written: {error}", error.advice) from error

    def _batch_done(self, batch: ProducerBatch) -> None:
        if batch.error is not None:
            self._failed_count += batch.count
            self._first_error = self._first_error or batch.error
        if self._on_batch is not None:
            self._on_batch(batch)
