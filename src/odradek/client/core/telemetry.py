"""Pushes a client's metrics to a broker that asks for them (KIP-714), as Java's client does.

    waiting --a broker has answered--> asking --subscription--> pushing --push interval--> pushing
                                         ^                         |
                                         +--other subscription-----+
    pushing --terminate--> ending --> off         any --refused for good--> off

The first push comes after 0.5 to 1.5 times the interval, so that clients that start together do not push
together. A subscription without metrics is asked for again after its interval. Brokers without a
subscription do not offer the request: then nothing is ever sent.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from odradek.client.core import otlp_encoding
from odradek.client.core.asks import Ask
from odradek.client.core.client_metrics import ClientMeter, Sample
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, ClientError, UnsupportedVersionError, broker_error
from odradek.model import uuids
from odradek.model.errors import ErrorCode
from odradek.records.compression import Codec, compress
from odradek.wire.generated.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from odradek.wire.generated.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest
from odradek.wire.generated.push_telemetry_response import PushTelemetryResponse

INTERVAL_MS_DEFAULT = 300_000
"""The pause after a lost connection, before there is a subscription."""
ALL_METRICS = "*"
_FOR_GOOD = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNSUPPORTED_VERSION,
)
_AT_ONCE = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_LATER = (ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
_RANGE = 1 << 31


class TelemetryState(Enum):
    """What happens next."""

    WAITING = "waiting"
    ASKING = "asking"
    PUSHING = "pushing"
    ENDING = "ending"
    OFF = "off"


class Telemetry:
    """The metrics of one client, on their way to a broker."""

    def __init__(
        self,
        routes: Routes,
        meter: ClientMeter,
        time_of_day: Callable[[], int],
        request_timeout_ms: int,
        *,
        is_on: bool,
    ) -> None:
        """`time_of_day` returns ms since 1970. `is_on` is `enable.metrics.push`."""
        self.state = TelemetryState.WAITING if is_on else TelemetryState.OFF
        self.instance_id: bytes | None = None
        """The id that the broker has given to this client."""
        self.next_deadline_ms: int | None = None
        self._routes = routes
        self._meter = meter
        self._time_of_day = time_of_day
        self._request_timeout_ms = request_timeout_ms
        self._subscription = GetTelemetrySubscriptionsResponse()
        self._due_ms = 0
        self._is_asked = False
        self._totals: dict[str, float] = {}
        """The totals of the last push, for deltas."""
        self._pushed_at = 0
        """When the last push was, in ms since 1970."""
        self._refused_codecs: set[int] = set()

    @property
    def is_active(self) -> bool:
        """Whether something will be sent without a call of the user."""
        return self.state not in (TelemetryState.WAITING, TelemetryState.OFF)

    def has_ended(self) -> bool:
        """Whether no last push is under way."""
        return self.state != TelemetryState.ENDING

    def terminate(self) -> None:
        """Push for the last time, if there was a subscription with metrics."""
        if self.state == TelemetryState.ENDING:
            return
        if self.is_active and self._subscription.requested_metrics:
            self.state = TelemetryState.ENDING
            self._is_asked = False  # a push in flight is not waited for
            self._due_ms = 0
        else:
            self.state = TelemetryState.OFF

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the request that is due."""
        self.next_deadline_ms = None
        if self.state == TelemetryState.OFF:
            return []
        self._meter.observe(now_ms)
        if self.state == TelemetryState.WAITING:
            if not self._routes.has_answered:
                return []
            self.state = TelemetryState.ASKING
            self._due_ms = now_ms
        if self._is_asked:
            return []
        if now_ms < self._due_ms:
            self.next_deadline_ms = self._due_ms
            return []
        self._is_asked = True
        return [self._subscribe() if self.state == TelemetryState.ASKING else self._push(now_ms)]

    # -- the subscription -----------------------------------------------------------------------

    def _subscribe(self) -> Ask:
        return Ask(
            None,
            GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id or uuids.ZERO),
            GetTelemetrySubscriptionsResponse,
            self._subscribed,
            self._lost,
            timeout_ms=self._request_timeout_ms,
        )

    def _subscribed(self, response: GetTelemetrySubscriptionsResponse, now_ms: int) -> None:
        if self.state != TelemetryState.ASKING:
            return
        self._is_asked = False
        error = broker_error(response.error_code, subject="telemetry")
        if error is not None:
            self._refused(error, now_ms)
            return
        self.instance_id = response.client_instance_id
        self._subscription = response
        if not response.requested_metrics:
            self._due_ms = now_ms + response.push_interval_ms
            return
        self.state = TelemetryState.PUSHING
        share = 0.5 + self._routes.random() / _RANGE
        self._due_ms = now_ms + round(response.push_interval_ms * share)
        self._pushed_at = self._pushed_at or self._time_of_day()

    def _lost(self, error: ClientError, now_ms: int) -> None:
        """Note that a request has no response."""
        if self.state == TelemetryState.ENDING or isinstance(error, UnsupportedVersionError):
            self.state = TelemetryState.OFF
            return
        self._is_asked = False
        self._due_ms = now_ms + (self._subscription.push_interval_ms or INTERVAL_MS_DEFAULT)

    def _refused(self, error: BrokerError, now_ms: int) -> None:
        code = error.code
        if code in _FOR_GOOD or code not in (*_AT_ONCE, *_LATER):
            self.state = TelemetryState.OFF
            return
        self.state = TelemetryState.ASKING
        interval_ms = self._subscription.push_interval_ms or INTERVAL_MS_DEFAULT
        self._due_ms = now_ms if code in _AT_ONCE else now_ms + interval_ms

    # -- pushes ---------------------------------------------------------------------------------

    def _push(self, now_ms: int) -> Ask:
        subscription = self._subscription
        is_last = self.state == TelemetryState.ENDING
        codec, payload = self._payload(now_ms)
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=is_last,
            compression_type=codec,
            metrics=payload,
        )

        def answered(response: PushTelemetryResponse, at_ms: int) -> None:
            if is_last:
                self.state = TelemetryState.OFF
                return
            if self.state != TelemetryState.PUSHING:
                return
            self._is_asked = False
            error = broker_error(response.error_code, subject="telemetry")
            if error is None:
                self._due_ms = at_ms + subscription.push_interval_ms
                return
            if error.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                self._refused_codecs.add(codec)
            self._refused(error, at_ms)

        def failed(error: ClientError, at_ms: int) -> None:
            if is_last or self.state == TelemetryState.PUSHING:
                self._lost(error, at_ms)

        timeout_ms = self._request_timeout_ms
        return Ask(None, request, PushTelemetryResponse, answered, failed, timeout_ms=timeout_ms)

    def _payload(self, now_ms: int) -> tuple[int, bytes]:
        is_delta = self._subscription.delta_temporality
        began, self._pushed_at = self._pushed_at, self._time_of_day()
        samples = [each for each in self._meter.samples(now_ms) if self._is_wanted(each.name)]
        if is_delta:
            samples = [self._delta(each) for each in samples]
        plain = otlp_encoding.encode(
            samples, self._meter.labels(), began, self._pushed_at, is_delta=is_delta
        )
        for number in self._subscription.accepted_compression_types:
            if number in self._refused_codecs or number == Codec.NONE:
                continue
            try:
                return number, bytes(compress(Codec(number), plain))
            except (ImportError, ValueError):
                continue  # this installation does not have it, or it is unknown
        return Codec.NONE, plain

    def _is_wanted(self, name: str) -> bool:
        wanted = self._subscription.requested_metrics
        return ALL_METRICS in wanted or any(name.startswith(each) for each in wanted)

    def _delta(self, sample: Sample) -> Sample:
        if not sample.is_total:
            return sample
        before = self._totals.get(sample.name, 0.0)
        self._totals[sample.name] = sample.value
        return sample._replace(value=sample.value - before)
