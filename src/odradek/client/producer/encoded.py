"""Writes batches that are encoded already. Several processes can do so in one transaction.

It has the machines of `Producer`, but no keeper: one thread uses it, and drives it. A process that joins
a transaction gets producer id and epoch from the one that begins and ends it. Each partition must have
one writer, or writers that continue each other's sequence numbers (`resume`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.core.producer import ProducerMachine
from odradek.client.core.producer_batch import ProducerBatch, ProducerIdentity
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.routes import Routes
from odradek.client.core.topic_queues import TopicQueues
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClientError, NoSuchTopicError
from odradek.client.producer.topic_wait import TopicWait
from odradek.client.shell.driver import Driver, wait
from odradek.client.shell.settings import connection_of
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import add_to_sequence
from odradek.records.compression import Codec


class EncodedBatch(NamedTuple):
    """The encoded records of one batch."""

    records: bytes | bytearray | memoryview
    record_count: int
    codec: Codec


class EncodedProducer:
    """Writes encoded batches. Its connections are closed with those of the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        joined: ProducerIdentity | None = None,
    ) -> None:
        """`joined` is the identity of the transaction, if `settings` has a transactional id.

        Raises:
            ClientError: no broker can be reached.
        """
        cluster.any()
        self.sequences: dict[TopicPartition, int] = {}
        """The next sequence number of each partition, if batches have sequence numbers."""
        self._settings = settings
        self._error: ClientError | None = None
        self._routes = Routes(
            lambda: random.getrandbits(31),
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            retry_backoff_max_ms=settings.retry_backoff_ms_max,
            creates_topics=settings.creates_topics,
        )
        self._machine = ProducerMachine(
            settings, self._routes, self._routes.random, on_batch=self._done, joined=joined
        )
        self._driver = Driver(connection_of(cluster), self._routes, [self._machine])
        cluster.close_with(self._driver)

    def resume(self, sequences: Mapping[TopicPartition, int]) -> None:
        """Continue with these sequence numbers, below which all batches are acknowledged.

        No batch may wait.

        Raises:
            ClientError: the partitions are not known.
        """
        assert not self._machine.has_batches, "the caller has flushed"
        for partition, number in sequences.items():
            if number != self.sequences.get(partition):
                self._machine.records.resume(self._topic(partition), partition.partition, number)
            self.sequences[partition] = number

    def send(self, batches: Mapping[TopicPartition, EncodedBatch], timestamp_ms: int) -> None:
        """Send batches. If the buffer is full, wait for room.

        Raises:
            ClientError: an earlier batch was rejected, or not written in time.
        """
        for partition, (records, count, codec) in batches.items():
            topic = self._topic(partition)
            if self._settings.is_idempotent:
                sequence = self.sequences.get(partition, 0)
                self.sequences[partition] = add_to_sequence(sequence, count)
            self._machine.records.add_encoded(
                topic, partition.partition, records, count, codec, timestamp_ms, monotonic_ms()
            )
        limit = self._settings.buffer_bytes
        self._wait_until(lambda: self._machine.records.buffered_bytes <= limit, None)

    def flush(self) -> None:
        """Wait until all batches are written.

        Raises:
            ClientError: a batch was rejected, or not written in time.
        """
        self._wait_until(lambda: not self._machine.has_batches, None)

    def _wait_until(self, is_done: Callable[[], bool], deadline: Deadline | None) -> bool:
        while True:
            self._driver.work()
            transaction = self._machine.transaction
            if transaction is not None and transaction.error is not None:
                raise transaction.error  # batches that were dropped for this have another error
            if self._error is not None:
                raise self._error
            if is_done():
                return True
            if deadline is not None and deadline.expired:
                return False
            wait(self._driver.descriptors(), self._driver.timeout_ms())

    def _topic(self, partition: TopicPartition) -> TopicQueues:
        name = partition.topic
        found = self._machine.records.topic(name, monotonic_ms())
        if found is None:
            waiting = TopicWait(self._routes, name, creates=self._settings.creates_topics)
            limit_ms = self._settings.request_timeout_ms
            if not self._wait_until(waiting.is_known, Deadline(limit_ms)):
                raise waiting.too_late(limit_ms, "request.timeout.ms")
            found = self._machine.records.topic(name, monotonic_ms())
            assert found is not None, "it was known when the wait ended"
        if partition.partition >= len(found.queues):
            raise NoSuchTopicError(name, partition.partition)
        return found

    def _done(self, batch: ProducerBatch) -> None:
        self._error = self._error or batch.error
