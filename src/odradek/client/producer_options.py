"""The options of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.records.compression import Codec


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Options of a producer, similar to the settings of Apache Kafka's producer.

    `acks` is -1 for acknowledgement by all in-sync replicas, 1 for the leader only, and 0 for no
    acknowledgement. With 0 the broker returns no errors. `poll`, and `send` when a batch is full,
    send the batches that are older than `linger_ms`. `create_topics` allows brokers to create
    missing topics.
    """

    acks: int = -1
    idempotent: bool = True
    compression: Codec = Codec.NONE
    compression_level: int | None = None
    batch_bytes: int = 65_536
    linger_ms: int = 5
    request_bytes_max: int = 1 << 20
    buffer_bytes_max: int = 32 << 20
    in_flight_max: int = 5
    delivery_timeout_ms: int = 120_000
    create_topics: bool = True
