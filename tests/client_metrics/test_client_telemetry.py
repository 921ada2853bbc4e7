"""The numbers that clients push: kept while the client's instance lives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from odradek.broker.clients.telemetry import ClientTelemetry
from odradek.core.client_metrics.subscriptions import EXPIRY_MS_MIN
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.compression import Codec, compress
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest
from odradek.wire.primitives import write_uvarint

PEER = SimpleNamespace(software_name="test", software_version="1", host="127.0.0.1", port=50_000)
CONTEXT = SimpleNamespace(peer=PEER, client_id="shop")
EXPIRED_MS = 4 * max(EXPIRY_MS_MIN, 300_000)


def message(number: int, content: bytes) -> bytes:
    return write_uvarint(number << 3 | 2) + write_uvarint(len(content)) + content


def gauge(name: str, value: int) -> bytes:
    """An OTLP payload: resource metrics, scope metrics, metric, gauge, a point of an integer."""
    point = write_uvarint(6 << 3 | 1) + value.to_bytes(8, "little")
    metric = message(1, name.encode()) + message(5, message(1, point))
    return message(1, message(2, message(2, metric)))


def push(telemetry: ClientTelemetry, instance_id: bytes, value: int, now_ms: int) -> None:
    machine = telemetry.machine
    instance = machine.subscribe(instance_id, {"client_id": "shop"}, now_ms)
    request = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        metrics=gauge("records", value),
    )
    telemetry.push(CONTEXT, request, now_ms)


def test_numbers_of_expired_instances_are_left_out_and_forgotten_by_the_next_push():
    telemetry = ClientTelemetry(1_000_000, bytes)
    first, second = bytes([1]) * 16, bytes([2]) * 16
    push(telemetry, first, 5, 0)
    assert [list(numbers.values()) for _, numbers in telemetry.numbers()] == [[5]]
    telemetry.machine.subscribe(second, {"client_id": "shop"}, EXPIRED_MS)
    assert first not in telemetry.machine.instances
    before = dict(telemetry._numbers)
    assert list(telemetry.numbers()) == []
    assert telemetry._numbers == before, "reading the numbers changes nothing"
    push(telemetry, second, 9, 2 * EXPIRED_MS)
    assert [list(numbers.values()) for _, numbers in telemetry.numbers()] == [[9]]
    assert first not in telemetry._numbers


@pytest.mark.parametrize("size", [1_000, 1_001])
def test_the_limit_is_also_that_of_decompressed_metrics(size):
    telemetry = ClientTelemetry(1_000, bytes)
    instance = telemetry.machine.subscribe(bytes([1]) * 16, {"client_id": "shop"}, 0)
    request = PushTelemetryRequest(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        compression_type=Codec.GZIP,
        metrics=compress(Codec.GZIP, message(9, bytes(size - 3))),
    )
    if size <= 1_000:
        telemetry.push(CONTEXT, request, 0)
        return
    with pytest.raises(ApiError) as refused:
        telemetry.push(CONTEXT, request, 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD
