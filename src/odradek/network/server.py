"""Accepts connections on listeners, and closes connections that exceed a limit.

The limits are the size of a request, the number of connections (in total, per listener and per
address), the rate of new connections (`odradek.core.quota.connections`) and the idle time. Rejected
connections and requests are counted and logged.

A listener that may not accept a connection now does not accept any, so that clients wait in the
backlog. An address with too many connections is rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest

from odradek.core.quota.connections import ConnectionRates
from odradek.env.network import Transport
from odradek.network.authentications import Authentications
from odradek.network.connection import Connection, Owner
from odradek.network.listeners import Endpoint, listen
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.turns import Turns

log = logging.getLogger("odradek.network")

IDLE_SWEEPS = 8
"""Number of checks for idle connections during the idle time. Therefore an idle connection is
closed at most an eighth of the idle time too late."""
ACCEPTS_PER_TURN = 16
"""Maximum number of connections that are accepted in one iteration of the event loop."""
ACCEPT_SECONDS = 0.0005
"""No connection is accepted later than this after the first one of an iteration."""
CLOSED_PER_TURN = 64
"""Maximum number of idle connections that are closed in one iteration of the event loop."""
ACCEPT_RETRY_SECONDS = 1.0
HELD_MAX = 1000
"""Maximum number of rejected connections that are closed later. Others are closed at once."""
DRAIN_QUICK_TURNS = 20
"""Number of iterations in which `drain` checks the connections without a pause. Most responses are
sent in these iterations."""


@dataclass(slots=True)
class Limits:
    """The limits of one server, with the names of Apache Kafka's settings."""

    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes"""
    connections_max: int = 2**31 - 1
    """max.connections"""
    connections_by_listener: Mapping[str, int] = field(default_factory=dict)
    """max.connections of each listener"""
    protected_listener: str = ""
    """The listener between brokers, if there are others. It accepts more than max.connections; then
    connections of other listeners are closed."""
    connections_per_ip_max: int = 2**31 - 1
    """max.connections.per.ip"""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides"""
    idle_ms: int = 600_000
    """connections.max.idle.ms; 0 or a negative value means that there is no limit."""
    listen_backlog: int = 50
    """socket.listen.backlog.size"""


Dispatch = Callable[[Connection, memoryview], None]
MakeGate = Callable[["Server", Transport], Owner]
"""Creates the owner of a connection whose client must be authenticated before its requests are
dispatched."""


class Server:
    """The listeners of one kind and their connections. Use it only on the event loop's thread.

    `dispatch` is called with each request.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        limits: Limits,
        endpoints: Iterable[Endpoint],
        gates: Mapping[str, MakeGate] | None = None,
        rates: ConnectionRates | None = None,
    ) -> None:
        """`gates` has a function for each listener whose clients must authenticate, by its name."""
        self.dispatch = dispatch
        self._gates = gates or {}
        self.authentications = Authentications(self._gates)
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max
        self.buffers = ReceiveBuffers()
        self.endpoints = list(endpoints)
        self.connections: dict[Connection, None] = {}
        """The open connections, oldest first."""
        self.on_close: Callable[[Connection], None] = lambda connection: None
        self.connections_accepted = 0
        self.connections_refused = 0
        self.frames_refused = 0
        self._closed_bytes_in = self._closed_bytes_out = 0
        """Bytes of connections that are closed."""
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        """Connections that were accepted and closed, by listener."""
        self._blocked_ns: Counter[str] = Counter()
        """How long a listener accepted no connections although a client had dialled, because of a
        limit. Without the time since `_blocked_since`."""
        self._blocked_since: dict[str, float] = {}
        """The listeners that accept no connections now, because of a limit."""
        self.rates = rates
        self._waiting: list[Endpoint] = []
        """The listeners that wait until a connection is closed."""
        self._held: dict[Transport, asyncio.TimerHandle] = {}
        """The connections that are opened or closed later."""
        self._loop = asyncio.get_running_loop()
        self.turns = Turns(self._loop)
        self._sweep: asyncio.TimerHandle | None = None
        self._closing = False

    # -- listeners --------------------------------------------------------------------------

    def start(self) -> None:
        """Accept connections on all listeners.

        Raises:
            ListenError: another process listens on one of the addresses.
        """
        for endpoint in self.endpoints:
            listen(endpoint, self.limits.listen_backlog)
            self._watch(endpoint)
        if self.limits.idle_ms > 0:
            self._schedule_sweep()

    def _watch(self, endpoint: Endpoint) -> None:
        if not self._closing:
            endpoint.listener.watch(lambda: self._accept(endpoint))

    def _has_room(self, listener: str) -> bool:
        """Whether the listener may have one more connection."""
        limits = self.limits
        if self._by_listener[listener] >= limits.connections_by_listener.get(listener, 2**31 - 1):
            return False
        return (
            listener == limits.protected_listener or len(self.connections) < limits.connections_max
        )

    def _accept(self, endpoint: Endpoint) -> None:
        deadline = self._loop.time() + ACCEPT_SECONDS
        for number in range(ACCEPTS_PER_TURN):
            if not self._has_room(endpoint.name):
                if not number:  # a client has dialled
                    self._block(endpoint)
                    self._waiting.append(endpoint)
                return
            try:
                transport = endpoint.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # No file descriptor is left. The connection stays in the backlog; retry later.
                log.warning("cannot accept a connection on %s: %s", endpoint.name, error.strerror)
                endpoint.listener.unwatch()
                self._loop.call_later(ACCEPT_RETRY_SECONDS, self._watch, endpoint)
                return
            delay_ms = 0
            if self.rates is not None:
                delay_ms = self.rates.record(endpoint.name, self._now_ms())
            if delay_ms:
                self._block(endpoint)
                self._hold(transport, delay_ms, partial(self._open_late, transport, endpoint))
                return
            self._open(transport, endpoint.name)
            if self._loop.time() > deadline:
                return

    def _block(self, endpoint: Endpoint) -> None:
        """Accept no connections on a listener for now, because of a limit."""
        endpoint.listener.unwatch()
        self._blocked_since[endpoint.name] = self._loop.time()

    def _unblock(self, endpoint: Endpoint) -> None:
        self._blocked_ns[endpoint.name] = self.blocked_ns(endpoint.name)
        del self._blocked_since[endpoint.name]
        self._watch(endpoint)

    def blocked_ns(self, listener: str) -> int:
        """Return how long a listener has accepted no connections because of a limit, until now."""
        since = self._blocked_since.get(listener)
        now = 0.0 if since is None else self._loop.time() - since
        return self._blocked_ns[listener] + int(now * 1e9)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _open_late(self, transport: Transport, endpoint: Endpoint) -> None:
        """Open a connection whose listener had to wait, and let the listener accept others."""
        self._open(transport, endpoint.name)
        self._unblock(endpoint)

    def _hold(self, transport: Transport, delay_ms: int, then: Callable[[], None]) -> None:
        """Keep a connection, without reading from it, and call `then` after the delay."""
        timer = self._loop.call_later(delay_ms / 1000, self._release, transport, then)
        self._held[transport] = timer

    def _release(self, transport: Transport, then: Callable[[], None]) -> None:
        del self._held[transport]
        then()

    def _resume(self) -> None:
        """Let the listeners that wait try again."""
        waiting, self._waiting = self._waiting, []
        for endpoint in waiting:
            self._unblock(endpoint)

    def _refuse(self, transport: Transport, listener: str) -> bool:
        """Close a connection now or later if its address has too many. Return whether it has."""
        host = transport.peer_address.host
        if self.rates is not None:
            delay_ms = self.rates.record_address(listener, host, self._now_ms())
            if delay_ms:
                self.connections_refused += 1
                if len(self._held) < HELD_MAX:
                    self._hold(transport, delay_ms, transport.close)
                else:
                    transport.close()
                return True
        limits = self.limits
        allowed = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if self._by_ip[host] >= allowed:
            self.connections_refused += 1
            log.info("refused a connection from %s: too many connections", host)
            transport.close()
            return True
        return False

    def _open(self, transport: Transport, listener: str) -> None:
        if self._refuse(transport, listener):
            return
        self.connections_accepted += 1
        self._by_ip[transport.peer_address.host] += 1
        self._by_listener[listener] += 1
        self.opened[listener] += 1
        gate = self._gates.get(listener)
        owner: Owner = self if gate is None else gate(self, transport)
        self.connections[Connection(transport, listener, owner, self._loop)] = None
        self._close_excess()

    def _close_excess(self) -> None:
        """If there are too many connections, close those that were idle for the longest time.

        There can be too many if a broker has connected, or if the limit was lowered.
        """
        excess = len(self.connections) - self.limits.connections_max
        if excess <= 0:
            return
        protected = self.limits.protected_listener
        others = (each for each in self.connections if each.peer.listener != protected)
        for each in nlargest(excess, others, key=lambda each: each.sweeps):
            each.close()

    def use_limits(self, limits: Limits) -> None:
        """Replace the limits, and close connections if there are more than max.connections.

        Other limits concern new connections and requests, and the next check for idle connections.
        """
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max
        self._close_excess()
        self._resume()

    @property
    def bytes_in(self) -> int:
        """Bytes received by all connections."""
        return self._closed_bytes_in + sum(each.bytes_in for each in self.connections)

    @property
    def bytes_out(self) -> int:
        """Bytes sent by all connections."""
        return self._closed_bytes_out + sum(each.bytes_out for each in self.connections)

    # -- connections ------------------------------------------------------------------------

    @property
    def knows_client(self) -> bool:
        """Whether the client is authenticated, if the listener requires it. Here it does not."""
        return True

    def refuse_size(self, connection: Connection, size: int) -> None:
        """Close a connection whose client announced a request of an invalid size."""
        self.refuse_longer(connection, size, self.request_bytes_max, "socket.request.max.bytes")

    def refuse_longer(self, connection: Connection, size: int, allowed: int, setting: str) -> None:
        """Close a connection, because a setting allows only requests of up to `allowed` bytes."""
        self.frames_refused += 1
        log.warning(
            "closed the connection of %s:%d: it announced a request of %d bytes (allowed: up to "
            "%d, %s)",
            connection.peer.host,
            connection.peer.port,
            size,
            allowed,
            setting,
        )
        connection.refuse()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has closed itself."""
        self.connections.pop(connection, None)
        self._closed_bytes_in += connection.bytes_in
        self._closed_bytes_out += connection.bytes_out
        host = connection.peer.host
        self._by_ip[host] -= 1
        if not self._by_ip[host]:
            del self._by_ip[host]
        self._by_listener[connection.peer.listener] -= 1
        self.closed[connection.peer.listener] += 1
        self._resume()
        self.on_close(connection)

    def _schedule_sweep(self) -> None:
        delay = self.limits.idle_ms / 1000 / IDLE_SWEEPS
        self._sweep = self._loop.call_later(delay, self._sweep_idle)

    def _sweep_idle(self) -> None:
        # One more check is needed: the first one may follow directly after the activity.
        idle = [each for each in self.connections if each.count_sweep() > IDLE_SWEEPS]
        self._close_idle(idle)
        self._schedule_sweep()

    def _close_idle(self, idle: list[Connection]) -> None:
        """Close idle connections, some of them in the next iterations of the event loop."""
        for connection in idle[-CLOSED_PER_TURN:]:
            if connection.sweeps > IDLE_SWEEPS:  # it may have become active meanwhile
                connection.close()
        del idle[-CLOSED_PER_TURN:]
        if idle:
            self._loop.call_soon(self._close_idle, idle)

    # -- the end ----------------------------------------------------------------------------

    async def drain(self, timeout_ms: int) -> None:
        """Stop accepting, wait at most `timeout_ms` for open responses, close all connections."""
        self._closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self.endpoints:
            self.endpoints.pop().listener.close()
        for transport, timer in self._held.items():
            timer.cancel()
            transport.close()
        self._held.clear()
        deadline = self._loop.time() + timeout_ms / 1000
        turns = 0
        while self.connections and self._loop.time() < deadline:
            for connection in list(self.connections):
                if connection.is_idle:  # close it before the client sends the next request
                    connection.close()
            turns += 1
            await asyncio.sleep(0 if turns < DRAIN_QUICK_TURNS else 0.01)
        for connection in list(self.connections):
            connection.close()
