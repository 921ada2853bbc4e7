"""What a producer machine must know. The defaults are those of Kafka 4.3."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.core.partitioners import MURMUR2_RANDOM
from odradek.records.compression import Codec


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of a producer. The docstrings have Kafka's names where they differ.

    `acks` is -1 for all in-sync replicas, 1 for the leader only, and 0 for no acknowledgement. With 0
    the broker returns no errors, and offsets are unknown.
    """

    acks: int = -1
    is_idempotent: bool = True
    """enable.idempotence"""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    codec: Codec = Codec.NONE
    """compression.type"""
    compression_level: int | None = None
    batch_bytes: int = 16_384
    """batch.size"""
    linger_ms: int = 5
    request_bytes_max: int = 1 << 20
    """max.request.size: the size of a request, and of a record before compression"""
    buffer_bytes: int = 32 << 20
    """buffer.memory"""
    in_flight_max: int = 5
    """max.in.flight.requests.per.connection"""
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    block_ms_max: int = 60_000
    """max.block.ms"""
    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000
    partitioner: str = MURMUR2_RANDOM
    ignores_keys: bool = False
    """partitioner.ignore.keys"""
    creates_topics: bool = True
    """allow.auto.create.topics"""
