"""Metrics that clients push (KIP-714), exposed with the node's metrics.

`core/client_metrics` decides which clients may push which metrics. This module decompresses the
payload, up to telemetry.max.bytes, and reads its numbers. It keeps the newest numbers of each client instance
until the instance terminates or expires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.broker.clients.request_context import RequestContext
from odradek.core.client_metrics.subscriptions import ClientMetrics, Instance
from odradek.env.randomness import RandomBytes
from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.compression import decompress
from odradek.records.errors import InvalidRecords
from odradek.telemetry import otlp
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest

SERIES_MAX = 2_000
"""Maximum number of series (a metric with its attributes) kept per client instance."""

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]


def describe(context: RequestContext) -> dict[str, str]:
    """Return the client's properties, which subscriptions match against their patterns."""
    peer = context.peer
    return {
        "client_id": context.client_id or "",
        "client_software_name": peer.software_name,
        "client_software_version": peer.software_version,
        "client_source_address": peer.host,
        "client_source_port": str(peer.port),
    }


class ClientTelemetry:
    """Keeps the numbers that clients push, if `ClientMetrics` accepts them."""

    def __init__(self, payload_bytes_max: int, random_bytes: RandomBytes) -> None:
        self.machine = ClientMetrics(payload_bytes_max, lambda: uuids.make(random_bytes(16)))
        self._numbers: dict[bytes, dict[SeriesKey, float]] = {}

    def push(self, context: RequestContext, request: PushTelemetryRequest, now_ms: int) -> None:
        """Process the payload that a client pushed.

        Raises:
            ApiError: `ClientMetrics` rejects the request, or the payload cannot be read
                (INVALID_RECORD).
        """
        instance = self.machine.push(
            request.client_instance_id,
            describe(context),
            now_ms,
            subscription_id=request.subscription_id,
            compression_type=request.compression_type,
            payload_bytes=len(request.metrics),
            terminating=request.terminating,
        )
        if request.metrics:
            self._take(instance, request)
        if request.terminating:
            self._numbers.pop(instance.id, None)

    def _take(self, instance: Instance, request: PushTelemetryRequest) -> None:
        limit = self.machine.payload_bytes_max
        try:
            payload = decompress(request.compression_type, request.metrics, limit)
            points = otlp.points(bytes(payload))
        except (InvalidRecords, otlp.MalformedTelemetry) as error:
            instance.refuse(ErrorCode.INVALID_RECORD)
            raise ApiError(
                ErrorCode.INVALID_RECORD, f"telemetry cannot be read: {error}"
            ) from error
        series = self._numbers.get(instance.id)
        if series is None:
            if len(self._numbers) >= len(self.machine.instances):
                self._forget_expired()
            series = self._numbers[instance.id] = {}
        for point in points:
            key = (point.name, point.attributes)
            if key in series:
                series[key] = series[key] + point.value if point.is_delta else point.value
            elif len(series) < SERIES_MAX:
                series[key] = point.value

    def _forget_expired(self) -> None:
        live = self.machine.instances
        self._numbers = {each: series for each, series in self._numbers.items() if each in live}

    def numbers(self) -> Iterator[tuple[Mapping[str, str], Mapping[SeriesKey, float]]]:
        """Yield the identity and the newest numbers of each live client instance.

        This method changes nothing, because the metrics server calls it on another thread.
        """
        for instance_id, series in list(self._numbers.items()):
            instance = self.machine.instances.get(instance_id)
            if instance is not None:
                yield instance.client, dict(series)
