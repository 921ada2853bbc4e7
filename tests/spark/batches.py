"""Batches as the sink writes them."""

from __future__ import annotations

from odradek.client.core.producer_batch import ProducerBatch, ProducerIdentity
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec


def record_batch(
    records, timestamp_ms, codec=Codec.NONE, producer=(-1, -1, -1), *, is_transactional=False
):
    """Return a batch. `producer` is the producer's id, epoch and base sequence."""
    packed = records.compressed(codec)
    batch = ProducerBatch(TopicPartition("t", 0), 1, 0, 0)
    batch.fill(
        packed.data,
        packed.record_count,
        packed.codec,
        timestamp_ms,
        is_transactional=is_transactional,
    )
    producer_id, epoch, sequence = producer
    batch.stamp(ProducerIdentity(producer_id, epoch) if sequence >= 0 else None, sequence)
    return batch.data
