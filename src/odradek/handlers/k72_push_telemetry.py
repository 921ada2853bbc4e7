"""PushTelemetry (72), version 0: a client's own metrics, in OpenTelemetry's form (KIP-714).

The numbers are shown on the node's metrics page as `kafka_client_...`, by client instance.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest
from odradek.wire.generated.push_telemetry_response import PushTelemetryResponse


def handle(
    broker: Broker, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Take the metrics, or refuse them with the reason as the error code."""
    broker.client_telemetry.push(context, request, broker.clock.monotonic_ms())
    return PushTelemetryResponse()


HANDLER = Handler(request=PushTelemetryRequest, versions=(0, 0), handle=handle)
