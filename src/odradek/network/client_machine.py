"""The state machine of a client: decides when the client connects, sends, retries and times out.

The state machine performs no IO. Its owner (`client`) reports events with the current time. Each
event returns effects, which the owner performs in their order.

Requests wait until the connection is open. Then they are sent in the order of their submission.
At most `in_flight_max` requests are in flight. The responses arrive in the order of the requests.

- The client connects when a request waits. After a failed attempt or a lost connection, the next
  attempt is delayed by an exponential back-off with jitter. An open connection resets the back-off.
- If a connection is lost, the requests in flight fail, because the node may or may not have
  processed them. Requests that were not sent wait for the next connection. With `fails_fast`, they
  fail if an attempt to connect fails, and requests during the back-off after it fail immediately.
- If a request in flight times out, the connection is closed. Responses arrive in order, so the
  responses to later requests would not arrive either. If a request that was not sent times out,
  only this request fails.
- A session of SASL may have a time at which it is renewed (KIP-368). From then on, the next request
  waits for the responses to all earlier ones, and then for the renewal. A connection on which no
  request waits is not renewed. These are the rules of Apache Kafka (`KafkaChannel`), except that it
  starts the renewal while responses are outstanding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from odradek.env.randomness import RandomBytes

JITTER = 0.2


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Timeouts and limits of a client, with the defaults of Apache Kafka's clients.

    The docstrings of the fields have Kafka's names where they differ.
    """

    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms, the time limit for connecting and the handshake."""
    connection_setup_timeout_max_ms: int = 30_000
    """socket.connection.setup.timeout.max.ms"""
    in_flight_max: int = 5
    """max.in.flight.requests.per.connection"""
    fails_fast: bool = False
    """Whether requests that wait fail if the connection cannot be made, as in the brokers of Apache
    Kafka (`InterBrokerSendThread`). If not, they wait for the next attempt."""


class RequestError(Exception):
    """A request got no response."""


class NotConnected(RequestError):
    """The connection could not be made, and the client fails fast. The request was not sent."""


class ConnectionLost(RequestError):
    """The connection ended while the request was in flight.

    The node may or may not have processed the request.
    """


class RequestTimedOut(RequestError):
    """The response did not arrive in time, or the request could not be sent in time.

    If the request was sent, the node may or may not have processed it.
    """


class ClientClosed(RequestError):
    """The client was closed."""


class Request:
    """A request to the node."""

    __slots__ = ("api_key", "api_version", "deadline_ms", "on_done", "parts")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        parts: list[bytes | bytearray | memoryview],
        deadline_ms: int,
        on_done: Callable[[memoryview | None, RequestError | None], None],
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.parts = parts
        """The bytes after the correlation id: the rest of the header, and the message."""
        self.deadline_ms = deadline_ms
        self.on_done = on_done
        """Called with the bytes after the response's correlation id, or with an error. The bytes
        are valid until `on_done` returns."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect and perform the handshake within `timeout_ms`. Then report `opened` or `lost`."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Authenticate again on the open connection within `timeout_ms`. Then report as for `Connect`."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection, or stop connecting. The owner does not report `lost` after that."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request on the open connection."""

    request: Request
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Report the error to the caller of the request."""

    request: Request
    error: RequestError


Effect = Connect | Renew | Disconnect | Send | Fail


class State(Enum):
    """State of the connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    OPEN = "open"
    RENEWING = "renewing"
    CLOSED = "closed"


class ClientMachine:
    """The state of one client. Times are milliseconds of a monotonic clock."""

    def __init__(self, settings: ClientSettings, random_bytes: RandomBytes) -> None:
        self._settings = settings
        self._random_bytes = random_bytes
        self.state = State.DISCONNECTED
        self._attempts = 0
        """Attempts to connect since the last open connection."""
        self._connect_not_before_ms = 0
        self._waiting: deque[Request] = deque()
        self._in_flight: dict[int, Request] = {}
        """The requests in flight by correlation id, oldest first."""
        self._last_correlation_id = 0
        self._failure = ""
        """Why the last attempt to connect has failed."""
        self._renew_at_ms: int | None = None
        """When the session must be renewed; None if it does not expire."""

    # -- events -----------------------------------------------------------------------------

    def submit(self, now_ms: int, request: Request) -> list[Effect]:
        """Add a request. It is sent when the connection is open and has room in flight."""
        if self.state is State.CLOSED:
            return [Fail(request, ClientClosed("the client is closed"))]
        is_backing_off = self.state is State.DISCONNECTED and now_ms < self._connect_not_before_ms
        if self._settings.fails_fast and is_backing_off and self._attempts:
            return [Fail(request, NotConnected(self._failure))]
        self._waiting.append(request)
        return self._go_on(now_ms)

    def opened(self, renew_at_ms: int | None = None) -> list[Effect]:
        """Process the event that the connection is open, or that its session is renewed.

        `renew_at_ms` is when the session must be renewed; None if it does not expire.
        """
        assert self.state in (State.CONNECTING, State.RENEWING)
        self.state = State.OPEN
        self._renew_at_ms = renew_at_ms
        self._attempts = 0
        return list(self._send())  # even if the session is so short that it must be renewed again

    def lost(self, now_ms: int, reason: str) -> list[Effect]:
        """Process the event that connecting or renewing failed, or that the connection has ended.

        The owner has closed the connection.
        """
        if self.state not in (State.CONNECTING, State.OPEN, State.RENEWING):
            return []
        was_connecting = self.state is State.CONNECTING
        self._failure = reason
        effects = self._fail_in_flight(now_ms, reason)
        if was_connecting and self._settings.fails_fast:
            effects += [Fail(each, NotConnected(reason)) for each in self._waiting]
            self._waiting.clear()
        return effects + self._go_on(now_ms)

    def responded(self, correlation_id: int) -> Request | None:
        """Remove and return the oldest request; None if the response belongs to another request.

        Call `tick` after that to send the next request.
        """
        if next(iter(self._in_flight), None) != correlation_id:
            return None
        return self._in_flight.pop(correlation_id)

    def tick(self, now_ms: int) -> list[Effect]:
        """Fail requests that have timed out, and connect or send if that is possible now."""
        effects: list[Effect] = []
        late = [each for each, request in self._in_flight.items() if request.deadline_ms <= now_ms]
        if late:
            effects.append(Disconnect())
            for correlation_id in late:
                request = self._in_flight.pop(correlation_id)
                effects.append(Fail(request, RequestTimedOut("no response in time")))
            effects += self._fail_in_flight(now_ms, "an earlier request had no response in time")
        expired = [request for request in self._waiting if request.deadline_ms <= now_ms]
        for request in expired:
            self._waiting.remove(request)
            effects.append(Fail(request, RequestTimedOut("it could not be sent in time")))
        return effects + self._go_on(now_ms)

    def close(self) -> list[Effect]:
        """Fail all requests. Later requests fail too."""
        if self.state is State.CLOSED:
            return []
        was_connected = self.state is not State.DISCONNECTED
        self.state = State.CLOSED
        effects: list[Effect] = [Disconnect()] if was_connected else []
        requests = (*self._in_flight.values(), *self._waiting)
        effects += [Fail(each, ClientClosed("the client is closed")) for each in requests]
        self._in_flight.clear()
        self._waiting.clear()
        return effects

    def next_deadline_ms(self) -> int | None:
        """Return the time when `tick` must be called; None if it need not be called."""
        times = [request.deadline_ms for request in (*self._in_flight.values(), *self._waiting)]
        if self.state is State.DISCONNECTED and self._waiting:
            times.append(self._connect_not_before_ms)
        return min(times, default=None)

    # -- decisions --------------------------------------------------------------------------

    def _go_on(self, now_ms: int) -> list[Effect]:
        if self.state is State.OPEN:
            if self._renew_at_ms is None or now_ms < self._renew_at_ms:
                return list(self._send())
            if self._in_flight or not self._waiting:
                return []
            self.state = State.RENEWING
            return [Renew(self._settings.connection_setup_timeout_ms)]
        connects = self.state is State.DISCONNECTED and self._waiting
        if not connects or now_ms < self._connect_not_before_ms:
            return []
        self.state = State.CONNECTING
        settings = self._settings
        timeout_ms = self._exponential(
            settings.connection_setup_timeout_ms, settings.connection_setup_timeout_max_ms
        )
        self._attempts += 1
        return [Connect(timeout_ms)]

    def _send(self) -> Iterator[Effect]:
        while self._waiting and len(self._in_flight) < self._settings.in_flight_max:
            request = self._waiting.popleft()
            correlation_id = self._last_correlation_id = (
                self._last_correlation_id + 1
            ) & 0x7FFF_FFFF
            self._in_flight[correlation_id] = request
            yield Send(request, correlation_id)

    def _fail_in_flight(self, now_ms: int, reason: str) -> list[Effect]:
        """Fail all requests in flight, because the connection is lost."""
        self.state = State.DISCONNECTED
        settings = self._settings
        delay_ms = self._exponential(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, after=1
        )
        self._connect_not_before_ms = now_ms + delay_ms
        requests = self._in_flight.values()
        effects: list[Effect] = [Fail(each, ConnectionLost(reason)) for each in requests]
        self._in_flight.clear()
        return effects

    def _exponential(self, least_ms: int, most_ms: int, after: int = 0) -> int:
        """Return a time that doubles with each attempt, with a jitter of 20 %."""
        doublings = min(max(0, self._attempts - after), 30)
        middle = min(least_ms << doublings, most_ms)
        chance = int.from_bytes(self._random_bytes(4), "big") / 2**32
        return round(middle * (1 - JITTER + 2 * JITTER * chance))
