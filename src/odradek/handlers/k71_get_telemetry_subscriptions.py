"""GetTelemetrySubscriptions (71), version 0: which metrics this client should push (KIP-714).

Subscriptions are `client-metrics` resources (IncrementalAlterConfigs, type 16). A client that
asks again before its interval has passed gets THROTTLING_QUOTA_EXCEEDED, unless its
subscription has changed or its last push was refused for its subscription or compression.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.client_telemetry import describe
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.wire.generated.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from odradek.wire.generated.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)

ACCEPTED_COMPRESSION_TYPES = [4, 3, 1, 2]
"""zstd, lz4, gzip, snappy: in the order in which we would like them."""


def handle(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """The subscription derived for the client instance, which gets an id if it has none."""
    machine = broker.client_telemetry.machine
    now_ms = broker.clock.monotonic_ms()
    instance = machine.subscribe(request.client_instance_id, describe(context), now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=ACCEPTED_COMPRESSION_TYPES,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=machine.payload_bytes_max,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


HANDLER = Handler(request=GetTelemetrySubscriptionsRequest, versions=(0, 0), handle=handle)
