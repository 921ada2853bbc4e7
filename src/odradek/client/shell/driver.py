"""Performs what machines ask for: opens connections, sends requests, receives responses, and waits.

The machines decide (`core`); this module has the sockets, the clock and the threads that connect. A
connection is made in another thread, because the resolution of names, TLS handshakes and the steps
of SASL wait for others. By default each has a thread of its own. A connection whose session of SASL is about
to end (KIP-368) gets no more requests, and when all are answered, it is authenticated again in such a thread.
Everything else is done by whoever calls `work`, without waiting. `wait` waits until there is work. It
may be called without the lock that protects all other methods.

Requests to any node use an open connection, or the first bootstrap address that accepts one.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from odradek.client.address import Address, Expected
from odradek.client.connection import Connection
from odradek.client.core.asks import Ask, Link
from odradek.client.core.backoff import Backoff
from odradek.client.core.client_metrics import ClientMeter
from odradek.client.core.routes import Routes
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import (
    ClientError,
    DisconnectedError,
    MisroutedError,
    RequestTimeoutError,
    UnreachableError,
    unreachable,
)
from odradek.client.frames import Pending
from odradek.client.shell.settings import ConnectionSettings
from odradek.wire.primitives import Message

WAIT_MS_MAX = 200
"""The longest wait. It bounds the delay if two threads wait and the other one takes the wake-up."""


class Machine(Protocol):
    """A machine of `core`."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` must be called again, if nothing happens before."""
        ...

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        ...


class _UnderWay(NamedTuple):
    ask: Ask
    pending: Pending[Message]
    expires_ms: int


def in_thread(work: Callable[[], None]) -> None:
    """Run something in a thread of its own."""
    threading.Thread(target=work, name="odradek connects", daemon=True).start()


class Opening:
    """Makes a connection to the first address that accepts one, or authenticates one again."""

    def __init__(
        self,
        addresses: Sequence[Address],
        driver: Driver,
        known: Connection | None = None,
        expected: Expected | None = None,
    ) -> None:
        """`known` is the connection to authenticate again, which has no requests in flight."""
        self.connection: Connection | None = None
        self.error: ClientError | None = None
        self.done = False
        self._is_unwanted = False
        self._lock = threading.Lock()
        self._addresses = addresses
        self._known = known
        self.is_renewal = known is not None
        self._expected = expected
        self._client_id = driver.client_id
        self._timeout_ms = driver.connect_timeout_ms
        self._security = driver.security
        self._wake = driver.wake_up
        driver.run_aside(self._run)

    def _run(self) -> None:
        try:
            self._end(self._connect(), None)
        except ClientError as error:
            self._end(None, error)
        except BaseException as error:
            self._end(None, ClientError(f"cannot connect to {self._addresses[0]}: {error!r}"))
            raise

    def _connect(self) -> Connection:
        if self._known is not None:
            self._known.authenticate_again()
            return self._known
        failures: list[ClientError] = []
        for address in self._addresses:
            try:
                return Connection(
                    address, self._client_id, self._timeout_ms, self._security, self._expected
                )
            except (UnreachableError, DisconnectedError) as error:
                failures.append(error)
        raise unreachable(failures)

    def _end(self, connection: Connection | None, error: ClientError | None) -> None:
        with self._lock:
            self.connection, self.error = connection, error
            self.done = True
            if self._is_unwanted and connection is not None:
                connection.close()
        self._wake.wake()

    def abandon(self) -> None:
        """Close the connection as soon as it is made."""
        with self._lock:
            self._is_unwanted = True
            if self.connection is not None:
                self.connection.close()


class WakeUp:
    """Ends the waits of other threads."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor that is readable after `wake`; -1 if it is closed."""
        return self._read

    def wake(self) -> None:
        """End the current waits, or the next one."""
        with self._lock:
            if self._write >= 0:
                try:
                    os.write(self._write, b"x")
                except BlockingIOError:
                    return  # there are enough of them

    def drain(self) -> None:
        """Let later waits wait again."""
        with self._lock:
            if self._read >= 0:
                try:
                    os.read(self._read, 4096)
                except BlockingIOError:
                    return

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            for each in (self._read, self._write):
                if each >= 0:
                    os.close(each)
            self._read = self._write = -1


class Descriptor(NamedTuple):
    """A descriptor, and what is waited for: `select.POLLIN` or `select.POLLOUT`, or both."""

    number: int
    events: int


def readable(wake_up: WakeUp) -> Descriptor:
    """Return what to wait for if `wake_up` ends the wait."""
    return Descriptor(wake_up.fileno(), select.POLLIN)


def wait(descriptors: Sequence[Descriptor], timeout_ms: int | None) -> None:
    """Wait for a descriptor of `Driver.descriptors`. This needs no lock."""
    if not descriptors:
        return
    poll = select.poll()
    for number, events in descriptors:
        if number >= 0:
            poll.register(number, events)
    poll.poll(timeout_ms)


class Driver:
    """The connections of one client, on behalf of its machines."""

    def __init__(
        self,
        connection: ConnectionSettings,
        routes: Routes,
        machines: Sequence[Machine],
        run_aside: Callable[[Callable[[], None]], None] = in_thread,
        meter: ClientMeter | None = None,
    ) -> None:
        """`run_aside` runs a function that waits for others in another thread.

        `meter` hears of new connections and of responses.
        """
        self._meter = meter
        self.run_aside = run_aside
        self.client_id = connection.client_id
        self.connect_timeout_ms = connection.connect_timeout_ms
        self.security = connection.security
        self._checks_nodes = connection.checks_nodes
        self.wake_up = WakeUp()
        self._bootstrap = connection.bootstrap
        self._routes = routes
        self._machines = (*machines, routes)
        self._backoff_ms = (
            connection.reconnect_backoff_ms,
            connection.reconnect_backoff_ms_max,
        )
        self._connections: dict[Link, Connection] = {}
        self._first: Connection | None = None
        """A connection to a bootstrap address, whose node id is unknown."""
        self._opening: dict[Link | None, Opening] = {}
        self._backoffs: dict[Link, Backoff] = {}
        self._not_before_ms: dict[Link, int] = {}
        self._waiting: deque[Ask] = deque()
        """Requests to any node."""
        self._under_way: dict[Connection, deque[_UnderWay]] = {}
        self._is_closed = False

    # -- work -----------------------------------------------------------------------------------

    def work(self) -> None:
        """Receive what has arrived and send what is due, without waiting."""
        if self._is_closed:
            return
        self._take_opened()
        self._receive()
        self.send()

    def send(self) -> None:
        """Send what is due, without waiting."""
        now_ms = monotonic_ms()
        again = True
        while again and not self._is_closed:
            again = False
            if self.security.is_authenticated:
                self._renew_sessions()
            for machine in self._machines:
                for ask in machine.poll(now_ms):
                    again |= not self._perform(ask, now_ms)
            if self._routes.must_start_over:
                self._start_over("the client begins again with the bootstrap addresses")
                again = True
            again |= self._open_wanted(now_ms)
            self._send_waiting(now_ms)

    def timeout_ms(self, limit_ms: int = WAIT_MS_MAX) -> int:
        """Return how long `wait` may wait, if nothing else happens."""
        now_ms = monotonic_ms()
        due = [m.next_deadline_ms for m in self._machines if m.next_deadline_ms is not None]
        due += [waiting[0].expires_ms for waiting in self._under_way.values() if waiting]
        due += [
            self._not_before_ms[each]
            for each in self._routes.wanted_links
            if each not in self._opening and each in self._not_before_ms
        ]
        return max(0, min([limit_ms, *(each - now_ms for each in due)]))

    def descriptors(self) -> list[Descriptor]:
        """Return the descriptors for `wait`, or none if there is something to receive already."""
        return [Descriptor(each.fileno(), events) for each, events in self.watched().items()]

    def watched(self) -> dict[WakeUp | Connection, int]:
        """Return what `descriptors` are those of, and what is waited for."""
        found: dict[WakeUp | Connection, int] = {self.wake_up: select.POLLIN}
        for connection in self._all():
            if not connection.closed:
                if connection.has_decrypted:
                    return {}
                found[connection] = _events_of(connection)
        return found

    def close(self) -> None:
        """Close all connections. Requests in flight get no response."""
        if self._is_closed:
            return
        self._is_closed = True
        for opening in self._opening.values():
            opening.abandon()
        for connection in self._all():
            connection.close()
        self._opening.clear()
        self._connections.clear()
        self._first = None
        self.wake_up.wake()
        self.wake_up.close()

    def _all(self) -> list[Connection]:
        found = list(self._connections.values())
        if self._first is not None:
            found.append(self._first)
        return found

    # -- connections ----------------------------------------------------------------------------

    def _open_wanted(self, now_ms: int) -> bool:
        """Open the links that machines want. Return whether one is ready at once."""
        is_ready = False
        for link in list(self._routes.wanted_links):
            node = self._routes.node(link[0])
            if node is None or link in self._opening or link in self._connections:
                continue
            if now_ms < self._not_before_ms.get(link, now_ms):
                continue
            first = self._first
            if not link[1] and first is not None and self._is_to(first, node.address):
                self._first = None
                self._opened(link, first)
                is_ready = True
            else:
                metadata = self._routes.metadata
                expected = metadata.expected(node.id) if self._checks_nodes else None
                self._opening[link] = Opening([node.address], self, expected=expected)
        return is_ready

    def _renew_sessions(self) -> None:
        """Authenticate connections again whose session ends soon."""
        for link, connection in list(self._connections.items()):
            if connection.must_authenticate:
                self._routes.pause(link)
                if connection not in self._under_way and not connection.has_waiting:
                    del self._connections[link]
                    self._opening[link] = Opening([connection.address], self, connection)
        first = self._first
        if first is not None and first.must_authenticate and first not in self._under_way:
            self._first = None
            first.close()

    def _is_to(self, connection: Connection, address: Address) -> bool:
        """Whether a connection without requests leads to an address."""
        is_free = connection not in self._under_way and not connection.closed
        return is_free and connection.address == address

    def _take_opened(self) -> None:
        if not self._opening:
            return
        for link, opening in [each for each in self._opening.items() if each[1].done]:
            del self._opening[link]
            if opening.connection is not None:
                if self._meter is not None and not opening.is_renewal:
                    self._meter.opened()
                self._opened(link, opening.connection)
            else:
                assert opening.error is not None
                self._not_opened(link, opening.error)

    def _opened(self, link: Link | None, connection: Connection) -> None:
        connection.become_patient()
        if link is None:
            self._first = connection
        else:
            self._connections[link] = connection
            self._not_before_ms.pop(link, None)
            self._backoffs.pop(link, None)
        self._routes.opened(link, connection.features)

    def _not_opened(self, link: Link | None, error: ClientError) -> None:
        now_ms = monotonic_ms()
        if link is None:
            waiting, self._waiting = self._waiting, deque()
            for ask in waiting:
                ask.on_error(error, now_ms)
            return
        backoff = self._backoffs.get(link)
        if backoff is None:
            backoff = self._backoffs[link] = Backoff(*self._backoff_ms, self._routes.random)
        self._not_before_ms[link] = now_ms + backoff.failed()
        node = self._routes.node(link[0])
        if isinstance(error, MisroutedError):
            self._start_over("a node has another address now")
        elif node is not None and node.address not in self._bootstrap:
            error = UnreachableError(
                f"broker {node.id} advertises {node.address}, but {error}",
                error.advice
                or "advertised.listeners of the broker must name an address that clients can reach.",
            )
        self._routes.lost(link, error)

    def _start_over(self, reason: str) -> None:
        """Close all connections, so that the bootstrap addresses are used."""
        for link in [each for each in self._opening if each is not None]:
            self._opening.pop(link).abandon()
        for connection in self._all():
            self._drop(connection, DisconnectedError(reason))
        self._routes.start_over()

    def _drop(self, connection: Connection, error: ClientError) -> None:
        """Fail the requests of a connection that has ended."""
        connection.close()
        now_ms = monotonic_ms()
        if connection is self._first:
            self._first = None
        for link in [key for key, each in self._connections.items() if each is connection]:
            del self._connections[link]
            self._routes.lost(link, error)
        for each in self._under_way.pop(connection, ()):
            each.ask.on_error(error, now_ms)

    # -- requests -------------------------------------------------------------------------------

    def _perform(self, ask: Ask, now_ms: int) -> bool:
        """Send a request. Return False if that has failed, and the machine has been told."""
        if ask.link is None:
            self._waiting.append(ask)
            return True
        connection = self._connections.get(ask.link)
        if connection is None:  # it has failed since the machine looked
            ask.on_error(DisconnectedError(f"the connection to node {ask.link[0]} is lost"), now_ms)
            return False
        return self._send(connection, ask, now_ms)

    def _send_waiting(self, now_ms: int) -> None:
        while self._waiting:
            connection = self._any()
            if connection is None:
                if None not in self._opening:
                    known = [each.address for each in self._routes.metadata.nodes.values()]
                    is_bootstrap = self._routes.recovery.rebootstraps or not known
                    addresses = dict.fromkeys((*(self._bootstrap if is_bootstrap else ()), *known))
                    self._opening[None] = Opening(list(addresses), self)
                return
            self._send(connection, self._waiting.popleft(), now_ms)

    def _any(self) -> Connection | None:
        for connection in self._all():
            if not connection.closed and not connection.must_authenticate:
                return connection
        return None

    def _send(self, connection: Connection, ask: Ask, now_ms: int) -> bool:
        try:
            if not ask.is_answered:
                connection.send_unanswered(ask.request, ask.version_max)
                ask.on_answer(None, now_ms)
                return True
            pending = connection.send(ask.request, ask.response_class, ask.version_max)
        except ClientError as error:
            if connection.closed:
                self._drop(connection, error)
            ask.on_error(error, now_ms)
            return False
        except BaseException:  # Ctrl-C may have interrupted the write
            interrupted = DisconnectedError(f"a request to {connection.address} was interrupted")
            self._drop(connection, interrupted)
            ask.on_error(interrupted, now_ms)
            raise
        waiting = self._under_way.get(connection)
        if waiting is None:
            waiting = self._under_way[connection] = deque()
        waiting.append(_UnderWay(ask, pending, now_ms + ask.timeout_ms))
        return True

    def _receive(self) -> None:
        connections = self._all()
        poll = select.poll()
        poll.register(self.wake_up, select.POLLIN)
        for connection in connections:
            if connection.closed:
                self._drop(connection, DisconnectedError(f"{connection.address}: closed"))
            else:
                poll.register(connection, _events_of(connection))
        ready = dict(poll.poll(0))
        if self.wake_up.fileno() in ready:
            self.wake_up.drain()
        now_ms = monotonic_ms()
        for connection in connections:
            events = ready.get(connection.fileno(), 0)
            if events & select.POLLOUT:
                self._write_to(connection)
            if events & ~select.POLLOUT or connection.has_decrypted:
                self._receive_from(connection)
            waiting = self._under_way.get(connection)
            if waiting and waiting[0].expires_ms <= now_ms:
                ask = waiting[0].ask
                name = type(ask.request).__name__.removesuffix("Request")
                text = f"{connection.address} did not answer {name} within {ask.timeout_ms} ms"
                self._drop(connection, RequestTimeoutError(text))

    def _write_to(self, connection: Connection) -> None:
        try:
            connection.write_waiting()
        except ClientError as error:
            self._drop(connection, error)

    def _receive_from(self, connection: Connection) -> None:
        waiting = self._under_way.get(connection)
        try:
            if not waiting:
                connection.check_idle()
                return
            while waiting:
                response = connection.poll(waiting[0].pending)
                if response is None:
                    return
                ask, _, expires_ms = waiting.popleft()
                now_ms = monotonic_ms()
                if self._meter is not None:
                    node_id = None if ask.link is None else ask.link[0]
                    took_ms = now_ms - expires_ms + ask.timeout_ms
                    self._meter.answered(node_id, ask.request, response, took_ms)
                ask.on_answer(response, now_ms)
            del self._under_way[connection]
        except ClientError as error:
            self._drop(connection, error)


def _events_of(connection: Connection) -> int:
    return select.POLLIN | select.POLLOUT if connection.has_waiting else select.POLLIN
