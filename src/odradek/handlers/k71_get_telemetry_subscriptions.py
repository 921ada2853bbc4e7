"""GetTelemetrySubscriptions (71), version 0: the metrics that this client should push (KIP-714).

- A subscription is a `client-metrics` resource (IncrementalAlterConfigs, resource type 16).
- A client that sends this request again before its push interval has passed gets the error
  THROTTLING_QUOTA_EXCEEDED. There are two exceptions: the subscription has changed, or the last
  push was rejected because of its subscription or compression.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.clients.telemetry import describe
from odradek.handlers.handler import Handler
from odradek.wire.generated.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from odradek.wire.generated.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)

ACCEPTED_COMPRESSION_TYPES = [4, 3, 1, 2]
"""zstd, lz4, gzip and snappy, in the order of preference."""


def handle(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the client instance's subscription. An instance without an id gets an id."""
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


HANDLER = Handler(request=GetTelemetrySubscriptionsRequest, handle=handle)
