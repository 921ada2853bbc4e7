"""PushTelemetry (72), version 0: a client pushes its metrics in OpenTelemetry's format (KIP-714).

The node's metrics page shows the numbers of each client instance as `kafka_client_...`.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.handler import Handler
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest
from odradek.wire.generated.push_telemetry_response import PushTelemetryResponse


def handle(
    broker: Broker, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Keep the metrics.

    Raises:
        ApiError: the metrics are rejected.
    """
    broker.client_telemetry.push(context, request, broker.clock.monotonic_ms())
    return PushTelemetryResponse()


HANDLER = Handler(request=PushTelemetryRequest, handle=handle)
