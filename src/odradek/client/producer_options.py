"""The options of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.records.compression import Codec


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Options of a producer; the names are those of Apache Kafka's settings, with units.

    `acks`: -1 all in-sync replicas, 1 the leader, 0 no acknowledgement (errors are then not
    noticed). `linger_ms` is checked when `send` or `poll` is called. `create_topics` allows brokers
    to create missing topics.
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
