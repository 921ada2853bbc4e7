"""Requests to the other replicas: one in flight to each, time limits, and the wait after an error
(Kafka's RequestManager).

The roles repeat a request until they receive a response or no longer need one. So a connection has
no queue. It only tells whether a request may be sent now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.core.raft.messages import Request
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voters import Destination


class InFlight(NamedTuple):
    """A request without a response."""

    request_id: int
    destination: Destination
    request: Request
    deadline_ms: int


class Connections:
    """The requests in flight and the waits, by destination."""

    def __init__(self, settings: RaftSettings) -> None:
        self._settings = settings
        self._in_flight: dict[Destination, InFlight] = {}
        self._backoff: dict[Destination, int] = {}
        """After an error: the time before which no request is sent."""
        self._last_id = 0

    def is_ready(self, destination: Destination, now_ms: int) -> bool:
        """Whether a request may be sent now."""
        return destination not in self._in_flight and self._backoff.get(destination, 0) <= now_ms

    def is_waiting(self, destination: Destination) -> bool:
        """Whether a request is in flight."""
        return destination in self._in_flight

    def sent(self, destination: Destination, request: Request, now_ms: int) -> int:
        """Record that a request is sent; return its id."""
        assert destination not in self._in_flight
        self._last_id += 1
        deadline_ms = now_ms + self._settings.request_timeout_ms
        self._in_flight[destination] = InFlight(self._last_id, destination, request, deadline_ms)
        self._backoff.pop(destination, None)
        return self._last_id

    def answered(self, request_id: int) -> InFlight | None:
        """Process a response; return its request, or None if the request is no longer in flight."""
        for each in self._in_flight.values():
            if each.request_id == request_id:
                return self._in_flight.pop(each.destination)
        return None

    def failed(self, destination: Destination, now_ms: int) -> None:
        """Process the failure of the last request: wait before the next one."""
        self._backoff[destination] = now_ms + self._settings.retry_backoff_ms

    def expire(self, now_ms: int) -> Iterator[InFlight]:
        """Drop the requests whose timeout has expired."""
        late = [each for each in self._in_flight.values() if each.deadline_ms <= now_ms]
        for each in late:
            del self._in_flight[each.destination]
            self.failed(each.destination, now_ms)
            yield each

    def reset(self) -> None:
        """Forget all requests: they belong to a role that has ended."""
        self._in_flight.clear()
        self._backoff.clear()

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return when the next timeout of a request expires or the next wait ends."""
        times = [each.deadline_ms for each in self._in_flight.values()]
        times += [time for time in self._backoff.values() if time > now_ms]
        return min(times, default=None)
