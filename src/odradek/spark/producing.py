"""Writes the encoded records of a task, with the client's machines.

In a transaction, several senders may share a producer id if each partition has only one sender, or
if they send in turns and continue each other's sequence numbers (`sharing`).
"""

from __future__ import annotations

from odradek.arrow.encoding import EncodedRecords
from odradek.client.cluster import Cluster
from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.producer.encoded import EncodedBatch, EncodedProducer
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.topic_partition import TopicPartition
from odradek.spark.options import WriteOptions

REQUEST_BYTES_MAX = 16 << 20
"""The size of a request with batches of several partitions. Brokers take requests of 100 MiB."""


class Sender:
    """Writes batches to partitions. Call `flush` at the end to wait until all are written."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        transaction: TransactionalProducer | None = None,
    ) -> None:
        """Raise ClientError if no broker can be reached."""
        timeout_ms = options.connection.request_timeout_ms
        settings = ProducerSettings(
            acks=options.acks,
            is_idempotent=options.idempotent,
            transactional_id=None if transaction is None else transaction.transactional_id,
            request_bytes_max=REQUEST_BYTES_MAX,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=2 * timeout_ms,
            creates_topics=False,
        )
        joined = None
        if transaction is not None:
            joined = ProducerIdentity(transaction.producer_id, transaction.epoch)
        self._codec = options.codec
        self._producer = EncodedProducer(cluster, settings, joined)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions to which batches were sent with sequence numbers."""
        return frozenset(self._producer.sequences)

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence number of each partition to which batches were sent."""
        return dict(self._producer.sequences)

    def resume(self, sequences: dict[TopicPartition, int]) -> None:
        """Continue with these sequence numbers, below which all batches are acknowledged.

        No batch may wait.

        Raises:
            ClientError: the partitions are not known.
        """
        self._producer.resume(sequences)

    def send(self, records: dict[TopicPartition, EncodedRecords], timestamp_ms: int) -> None:
        """Send one batch for each partition. If the buffer is full, wait for room.

        Raises:
            ClientError: an earlier batch was rejected, or not written in time.
        """
        packed = {each: encoded.compressed(self._codec) for each, encoded in records.items()}
        self._producer.send(
            {each: EncodedBatch(x.data, x.record_count, x.codec) for each, x in packed.items()},
            timestamp_ms,
        )

    def flush(self) -> None:
        """Wait until all batches are written.

        Raises:
            ClientError: a batch was rejected, or not written in time.
        """
        self._producer.flush()
