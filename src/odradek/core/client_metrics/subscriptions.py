"""State machine of client metrics: chooses the metrics of each client, and accepts or rejects
pushes (KIP-714, Apache Kafka's `ClientMetricsManager`).

Each `client-metrics` resource is a subscription. It has metric name prefixes, a push interval, and
patterns that select clients. For each client instance the state machine combines all subscriptions
that match the client. The result has all their metrics, the shortest interval, and a subscription
id. The id changes when the metrics or the interval change. A client requests this result, and then
pushes its metrics once per interval. A push gets an error if it is too early, has an old
subscription id, or follows a terminating push.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode

INTERVAL_MS_DEFAULT = 300_000
INSTANCES_MAX = 16_384
"""Maximum number of client instances. A new instance replaces the least recently used instance."""
EXPIRY_MS_MIN = 60_000
ALL_METRICS = "*"
COMPRESSION_TYPES_MAX = 4
MATCHABLE = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


@dataclass(slots=True)
class Subscription:
    """One `client-metrics` resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Subscription:
        """Create a subscription from the settings `metrics`, `interval.ms` and `match`.

        Raises:
            ApiError: INVALID_CONFIG: a pattern in `match` is invalid.
        """
        match: dict[str, re.Pattern[str]] = {}
        for item in _list(settings.get("match", "")):
            name, _, pattern = item.partition("=")
            if name.strip() not in MATCHABLE or not pattern or "=" in pattern:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item}")
            try:
                match[name.strip()] = re.compile(pattern.strip())
            except re.error:
                message = f"Illegal client matching pattern: {item}"
                raise ApiError(ErrorCode.INVALID_CONFIG, message) from None
        interval_ms = int(settings.get("interval.ms", INTERVAL_MS_DEFAULT))
        return cls(tuple(_list(settings.get("metrics", ""))), interval_ms, match)

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether all patterns match. Without patterns, every client matches."""
        return all(pattern.fullmatch(client[name]) for name, pattern in self.match.items())


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


class Instance:
    """One client instance, and the combination of all subscriptions that match it."""

    __slots__ = (
        "_asked_ms",
        "_generation",
        "_is_terminating",
        "_last_error",
        "_pushed_ms",
        "client",
        "id",
        "interval_ms",
        "metrics",
        "seen_ms",
        "subscription_id",
    )

    def __init__(self, instance_id: bytes, client: Mapping[str, str]) -> None:
        self.id = instance_id
        self.client = {**client, "client_instance_id": uuids.to_text(instance_id)}
        self.metrics: list[str] = []
        self.interval_ms = INTERVAL_MS_DEFAULT
        self.subscription_id = 0
        self.seen_ms = 0
        self._generation = -1
        """The generation of the subscriptions when they were last combined."""
        self._asked_ms: int | None = None
        self._pushed_ms: int | None = None
        self._last_error = ErrorCode.NONE
        self._is_terminating = False

    def on_request(
        self, now_ms: int, subscriptions: Mapping[str, Subscription], generation: int
    ) -> None:
        """Store the time of a request. Combine the subscriptions again if they have changed."""
        self.seen_ms = now_ms
        if self._generation != generation:
            self._derive(subscriptions.values())
            self._generation = generation

    def _derive(self, subscriptions: Iterable[Subscription]) -> None:
        """Combine all subscriptions that match.

        After this the client may request its subscription immediately.
        """
        metrics: set[str] = set()
        interval_ms = INTERVAL_MS_DEFAULT
        for subscription in subscriptions:
            if subscription.matches(self.client):
                metrics.update(subscription.metrics)
                interval_ms = min(interval_ms, subscription.interval_ms)
        self.metrics = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
        self.interval_ms = interval_ms
        text = f"{self.metrics}{interval_ms}".encode() + self.id
        self.subscription_id = zlib.crc32(text) - 2**31
        self._asked_ms = self._pushed_ms = None
        self._is_terminating = False

    def ask(self, now_ms: int) -> None:
        """Process a request for the subscription.

        Raises:
            ApiError: THROTTLING_QUOTA_EXCEEDED: the request is too early.
        """
        times = [time for time in (self._asked_ms, self._pushed_ms) if time is not None]
        early = bool(times) and now_ms - max(times) < self.interval_ms
        may_ask_anew = self._last_error in {
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        }
        if early and not may_ask_anew:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._asked_ms = now_ms
        self._last_error = ErrorCode.NONE

    def push(
        self,
        now_ms: int,
        subscription_id: int,
        compression_type: int,
        is_too_large: bool,
        terminating: bool,
    ) -> None:
        """Process a push of metrics.

        Raises:
            ApiError: the push is rejected.
        """
        error = self._refusal(now_ms, subscription_id, compression_type, is_too_large, terminating)
        self._is_terminating = terminating
        self._last_error = error
        if error:
            raise ApiError(error)

    def refuse(self, error: ErrorCode) -> None:
        """Record an error in the last accepted push, because its content could not be read."""
        self._last_error = error

    def _refusal(
        self,
        now_ms: int,
        subscription_id: int,
        compression_type: int,
        is_too_large: bool,
        terminating: bool,
    ) -> ErrorCode:
        if self._is_terminating:
            return ErrorCode.INVALID_REQUEST
        asked, pushed = self._asked_ms, self._pushed_ms
        # The first push after a subscription request may come before the end of the interval,
        # because clients shorten the first interval by a random time.
        first = asked is not None and (pushed is None or asked > pushed)
        on_time = first or pushed is None or now_ms - pushed >= self.interval_ms
        if on_time:
            self._pushed_ms = now_ms
        elif not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != self.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= compression_type <= COMPRESSION_TYPES_MAX:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if is_too_large else ErrorCode.NONE


class ClientMetrics:
    """The state machine. `draw_id` returns an id for a client that has no instance id yet."""

    def __init__(self, payload_bytes_max: int, draw_id: Callable[[], bytes]) -> None:
        self.payload_bytes_max = payload_bytes_max
        """The setting telemetry.max.bytes."""
        self._draw_id = draw_id
        self._subscriptions: dict[str, Subscription] = {}
        self._generation = 0
        self.instances: OrderedDict[bytes, Instance] = OrderedDict()

    @property
    def has_subscriptions(self) -> bool:
        """Whether there is any subscription."""
        return bool(self._subscriptions)

    def configure(self, name: str, settings: Mapping[str, str]) -> None:
        """Set the settings of a `client-metrics` resource. Without settings, remove it.

        Raises:
            ApiError: INVALID_CONFIG: a pattern is invalid.
        """
        if settings:
            self._subscriptions[name] = Subscription.parse(settings)
        else:
            self._subscriptions.pop(name, None)
        self._generation += 1

    def subscribe(self, instance_id: bytes, client: Mapping[str, str], now_ms: int) -> Instance:
        """Process GetTelemetrySubscriptions. Return the instance, which has the subscription.

        Raises:
            ApiError: THROTTLING_QUOTA_EXCEEDED: the request is too early.
        """
        if instance_id == uuids.ZERO:
            instance_id = self._draw_id()
        instance = self._instance(instance_id, client, now_ms)
        instance.ask(now_ms)
        return instance

    def push(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        now_ms: int,
        *,
        subscription_id: int,
        compression_type: int,
        payload_bytes: int,
        terminating: bool,
    ) -> Instance:
        """Process PushTelemetry. Return the instance; the caller may then read the metrics.

        Raises:
            ApiError: the push is rejected.
        """
        if uuids.is_reserved(instance_id):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(instance_id, client, now_ms)
        is_too_large = payload_bytes > self.payload_bytes_max
        instance.push(now_ms, subscription_id, compression_type, is_too_large, terminating)
        return instance

    def _instance(self, instance_id: bytes, client: Mapping[str, str], now_ms: int) -> Instance:
        instance = self.instances.get(instance_id)
        if instance is None:
            self._expire(now_ms)
            instance = self.instances[instance_id] = Instance(instance_id, client)
        instance.on_request(now_ms, self._subscriptions, self._generation)
        self.instances.move_to_end(instance_id)
        return instance

    def _expire(self, now_ms: int) -> None:
        """Remove instances without a request for three intervals.

        If there are still `INSTANCES_MAX` instances, also remove the least recently used instance.
        """
        while self.instances:
            oldest = next(iter(self.instances.values()))
            silent_ms = now_ms - oldest.seen_ms
            expired = silent_ms > max(EXPIRY_MS_MIN, 3 * oldest.interval_ms)
            if not expired and len(self.instances) < INSTANCES_MAX:
                return
            del self.instances[oldest.id]
