"""The settings of a producer by Kafka's names, with Java's defaults.

librdkafka's names are understood, too. Its defaults and its partitioner are not used: a program that
moves and must keep the partitions of its keys sets `partitioner` to `consistent_random`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.client.core.partitioners import PARTITIONERS
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given
from odradek.records.compression import Codec

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_CODECS = {codec.name.lower(): codec for codec in Codec}
_LEVELS = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
_NUMBERS = {
    "batch.size": ("batch_bytes", 0),
    "linger.ms": ("linger_ms", 0),
    "buffer.memory": ("buffer_bytes", 1),
    "max.request.size": ("request_bytes_max", 1),
    "delivery.timeout.ms": ("delivery_timeout_ms", 1),
    "request.timeout.ms": ("request_timeout_ms", 1),
    "max.block.ms": ("block_ms_max", 0),
    "retries": ("retries", 0),
    "retry.backoff.ms": ("retry_backoff_ms", 0),
    "retry.backoff.max.ms": ("retry_backoff_ms_max", 0),
    "transaction.timeout.ms": ("transaction_timeout_ms", 1),
    "max.in.flight.requests.per.connection": ("in_flight_max", 1),
}
"""The fields of settings that are numbers, and the lowest values."""
_OTHER_NAMES = {
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.max.bytes": "max.request.size",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
"""librdkafka's names of the same settings."""
_IN_FLIGHT_MAX = 5
_NEEDS_ALL = (
    "enable.idempotence needs acks=all, because a leader that fails would forget records that were "
    "acknowledged; set acks=all, or enable.idempotence=false"
)

PRODUCER_SETTINGS = (
    *CONNECTION_SETTINGS,
    *_NUMBERS,
    "acks",
    "allow.auto.create.topics",
    "compression.level",
    "compression.type",
    "enable.idempotence",
    "enable.metrics.push",
    "key.serializer",
    "metadata.max.age.ms",
    "partitioner",
    "partitioner.ignore.keys",
    "transactional.id",
    "value.serializer",
    *_LEVELS.values(),
)
"""The names of a producer's settings."""


def given_settings(settings: Mapping[str, object], keywords: Mapping[str, object]) -> Given:
    """Return the settings of a producer: `settings` by name, `keywords` with underscores.

    Raises:
        ValueError: a name is unknown, or a setting is given twice.
    """
    return Given(settings, keywords, PRODUCER_SETTINGS, _OTHER_NAMES)


def producer_settings(given: Given, request_timeout_ms: int = 30_000) -> ProducerSettings:
    """Return what the machine must know. `request_timeout_ms` is a default.

    Raises:
        ValueError: a value is malformed, or settings contradict each other.
    """
    numbers: dict[str, Any] = {
        field: given.number(name, lowest)
        for name, (field, lowest) in _NUMBERS.items()
        if given.has(name)
    }
    numbers.setdefault("request_timeout_ms", request_timeout_ms)
    acks = given.choice("acks", _ACKS, -1)
    transactional_id = given.text("transactional.id") or None
    codec = given.choice("compression.type", _CODECS, Codec.NONE)
    level = None
    for name in ("compression.level", _LEVELS.get(codec, "")):
        if given.has(name):
            level = given.number(name, -(2**31))
    plain = ProducerSettings(**numbers)
    is_idempotent = given.flag("enable.idempotence", acks == -1 and plain.retries > 0)
    _check(given, plain, acks, is_idempotent, transactional_id)
    delivery_ms = plain.linger_ms + plain.request_timeout_ms
    if not given.has("delivery.timeout.ms"):
        numbers["delivery_timeout_ms"] = max(plain.delivery_timeout_ms, delivery_ms)
    return ProducerSettings(
        **numbers,
        acks=acks,
        is_idempotent=is_idempotent,
        transactional_id=transactional_id,
        codec=codec,
        compression_level=level,
        partitioner=given.choice(
            "partitioner", {each: each for each in PARTITIONERS}, PARTITIONERS[0]
        ),
        ignores_keys=given.flag("partitioner.ignore.keys", default=False),
        creates_topics=given.flag("allow.auto.create.topics", default=True),
    )


def _check(
    given: Given,
    settings: ProducerSettings,
    acks: int,
    is_idempotent: bool,
    transactional_id: str | None,
) -> None:
    if is_idempotent and acks != -1:
        raise ValueError(_NEEDS_ALL)
    if is_idempotent and settings.retries == 0:
        raise ValueError("enable.idempotence needs retries above 0")
    if is_idempotent and settings.in_flight_max > _IN_FLIGHT_MAX:
        raise ValueError(
            f"max.in.flight.requests.per.connection is {settings.in_flight_max}; an idempotent "
            f"producer can have {_IN_FLIGHT_MAX} at most, because brokers remember as many batches"
        )
    if transactional_id is not None and not is_idempotent:
        raise ValueError(
            "transactional.id needs an idempotent producer: acks=all, enable.idempotence=true"
        )
    needed = settings.linger_ms + settings.request_timeout_ms
    if given.has("delivery.timeout.ms") and settings.delivery_timeout_ms < needed:
        raise ValueError(
            f"delivery.timeout.ms is {settings.delivery_timeout_ms}; it must be at least linger.ms + "
            f"request.timeout.ms, which is {needed}"
        )
