"""A simulated client: it performs what the machines of `odradek.client.core` ask for.

It is to the simulated network and time what `odradek.client.shell.driver` is to sockets and threads: it
opens the connections that machines want, sends their requests, and polls them when something has
happened or is due. The actors of a simulation wait with `until` and `ask`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from odradek.client.address import Address
from odradek.client.core.asks import Ask, Link
from odradek.client.core.backoff import Backoff
from odradek.client.core.routes import GROUP, TRANSACTION, Routes
from odradek.client.errors import (
    BrokerError,
    ClientError,
    DisconnectedError,
    RequestTimeoutError,
    UnreachableError,
)
from odradek.model.topic_partition import TopicPartition
from odradek.sim.connection import Connection
from odradek.sim.loop import SimLoop
from odradek.sim.network import SimHost
from odradek.sim.simulation import SimClock, Simulation
from odradek.wire.primitives import Message

TIMEOUT_MS = 4_000
"""Of requests, and of a new connection."""
RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX = 50, 1_000

ResponseT = TypeVar("ResponseT", bound=Message)


class Machine(Protocol):
    """A machine of `odradek.client.core`."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` must be called again, if nothing happens before."""
        ...

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        ...


class To:
    """Where a question goes: to a leader, to a coordinator, to a node, or to any node."""

    def __init__(
        self,
        partition: TopicPartition | None = None,
        coordinator: tuple[int, str] | None = None,
        node: int | None = None,
    ) -> None:
        self.partition = partition
        self.coordinator = coordinator
        self.node = node


ANY = To()


def leader(partition: TopicPartition) -> To:
    """Ask the leader of a partition."""
    return To(partition=partition)


def group(group_id: str) -> To:
    """Ask the coordinator of a group."""
    return To(coordinator=(GROUP, group_id))


def transaction(transactional_id: str) -> To:
    """Ask the coordinator of a transactional id."""
    return To(coordinator=(TRANSACTION, transactional_id))


class Question:
    """One request of an actor, as a machine: it is sent once, when it is known to which node it goes."""

    def __init__(
        self,
        routes: Routes,
        to: To,
        request: Message,
        response_class: type[Message],
        expires_ms: int,
    ) -> None:
        self.response: Message | None = None
        self.error: ClientError | None = None
        self.next_deadline_ms: int | None = expires_ms
        self._routes = routes
        self._to = to
        self._request = request
        self._response_class = response_class
        self._expires_ms = expires_ms
        self._is_sent = False

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return self.response is not None or self.error is not None

    def poll(self, now_ms: int) -> list[Ask]:
        """Send the request, if it is known where it goes."""
        if self._is_sent or self.done:
            return []
        if now_ms >= self._expires_ms:
            self.error = RequestTimeoutError("nobody could be asked in time")
            return []
        try:
            link = self._link(now_ms)
        except BrokerError as error:
            self.error = error
            return []
        if link is None and self._to is not ANY:
            return []
        self._is_sent = True
        self.next_deadline_ms = None
        return [
            Ask(
                link,
                self._request,
                self._response_class,
                self._answered,
                self._failed,
                timeout_ms=self._expires_ms - now_ms,
            )
        ]

    def _link(self, now_ms: int) -> Link | None:
        """Return the link, if it is known and ready."""
        to, node = self._to, -1
        if to.partition is not None:
            self._routes.topic(to.partition.topic, now_ms)
            node = self._routes.leader(to.partition)
        elif to.coordinator is not None:
            found = self._routes.coordinator(*to.coordinator)
            node = -1 if found is None else found
        elif to.node is not None:
            node = to.node
        link = node, ""
        return link if node >= 0 and self._routes.is_ready(link) else None

    def _answered(self, response: Message, now_ms: int) -> None:
        self.response = response

    def _failed(self, error: ClientError, now_ms: int) -> None:
        self.error = error


class SimClient:
    """The connections and machines of one client process."""

    def __init__(
        self, simulation: Simulation, host: SimHost, bootstrap: Sequence[Address], name: str
    ) -> None:
        self.name = name
        self.rack = ""
        """The rack in Fetch requests (KIP-392). Empty if the client always reads from leaders."""
        self.random_number: Callable[[], int] = _numbers(simulation, name)
        self.nearest: dict[TopicPartition, int] = {}
        """The replicas that leaders have named, for Fetch requests (KIP-392)."""
        self.routes = Routes(
            self.random_number, request_timeout_ms=TIMEOUT_MS, creates_topics=False
        )
        self.clock = SimClock(simulation)
        self._simulation = simulation
        self._host = host
        start = simulation.random(f"{name} routing").randrange(len(bootstrap))
        self._bootstrap = [*bootstrap[start:], *bootstrap[:start]]
        self._machines: list[Machine] = []
        self._connections: dict[Link, Connection] = {}
        self._first: Connection | None = None
        """A connection to a bootstrap address, whose node id is unknown."""
        self._opening: dict[Link | None, asyncio.Task[None]] = {}
        self._backoffs: dict[Link | None, Backoff] = {}
        self._not_before_ms: dict[Link | None, int] = {}
        self._waiting: deque[Ask] = deque()
        """Requests to any node."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def loop(self) -> SimLoop:
        """The event loop of the client's process."""
        return self._host.loop

    # -- actors ---------------------------------------------------------------------------------

    def add(self, *machines: Machine) -> None:
        """Drive more machines."""
        self._machines += machines
        self.wake()

    def remove(self, *machines: Machine) -> None:
        """Drive machines no more."""
        for each in machines:
            self._machines.remove(each)

    def wake(self) -> None:
        """Poll the machines soon, because somebody has changed them."""
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._turn)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the machines holds."""
        self.wake()
        future = self.loop.create_future()
        self._waiters.append((holds, future))
        await future

    async def ask(
        self, request: Message, response_class: type[ResponseT], to: To = ANY
    ) -> ResponseT:
        """Return the response to a request.

        Raises:
            ClientError: nobody could be asked, or no response arrived in time. The broker may have
                processed the request.
        """
        expires_ms = self.clock.monotonic_ms() + TIMEOUT_MS
        question = Question(self.routes, to, request, response_class, expires_ms)
        self.add(question)
        await self.until(lambda: question.done)
        self.remove(question)
        if question.error is not None:
            raise question.error
        assert isinstance(question.response, response_class)
        return question.response

    def forget(self, to: To) -> None:
        """Look up a leader or a coordinator again."""
        if to.partition is not None:
            self.routes.forget_topic(to.partition.topic)
        if to.coordinator is not None:
            self.routes.forget_coordinator(*to.coordinator)

    def read_near(self, rack: str) -> None:
        """Read from replicas in this rack."""
        self.rack = rack

    def kill(self) -> None:
        """End the process, as with SIGKILL."""
        self.loop.stop()
        self._host.stop(notify=True)

    def disconnect(self, node: int) -> None:
        """Close the connections to a node."""
        for link, connection in list(self._connections.items()):
            if link[0] == node:
                connection.end(DisconnectedError("the client has closed the connection"))

    # -- work -----------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._is_due = False
        now_ms = self.clock.monotonic_ms()
        for connection in self._all():
            connection.expire(now_ms)
        again = True
        while again:
            again = False
            self._drop_ended()
            for machine in (*self._machines, self.routes):
                for ask in machine.poll(now_ms):
                    again |= not self._perform(ask, now_ms)
            again |= self._open_wanted(now_ms)
            self._send_waiting(now_ms)
        self._tell_waiters()
        self._set_timer(now_ms)

    def _tell_waiters(self) -> None:
        left: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        for holds, future in self._waiters:
            if future.done():
                continue
            if holds():
                future.set_result(None)
            else:
                left.append((holds, future))
        self._waiters = left

    def _set_timer(self, now_ms: int) -> None:
        due: list[int | None] = [each.next_deadline_ms for each in (*self._machines, self.routes)]
        due += [each.expires_ms for each in self._all()]
        due += [self._not_before_ms.get(each) for each in self._wanted()]
        if self._waiting and None not in self._opening:
            due.append(self._not_before_ms.get(None))
        next_ms = min((each for each in due if each is not None), default=None)
        if next_ms is None:
            return
        next_ms = max(next_ms, now_ms + 1)
        if self._timer is not None and now_ms < self._timer_ms <= next_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self.loop.call_at(next_ms / 1000, self.wake)

    def _all(self) -> Iterable[Connection]:
        if self._first is None:
            return list(self._connections.values())
        return [*self._connections.values(), self._first]

    def _wanted(self) -> list[Link]:
        return sorted(each for each in self.routes.wanted_links if each not in self._opening)

    # -- requests -------------------------------------------------------------------------------

    def _perform(self, ask: Ask, now_ms: int) -> bool:
        """Send a request. Return False if that has failed, and the machine has been told."""
        if ask.link is None:
            self._waiting.append(ask)
            return True
        return self._send(self._connections[ask.link], ask, now_ms)

    def _send(self, connection: Connection, ask: Ask, now_ms: int) -> bool:
        if connection.error is not None:
            ask.on_error(connection.error, now_ms)
            return False
        try:
            connection.send(ask)
        except ClientError as error:
            ask.on_error(error, now_ms)
            return False
        return True

    def _send_waiting(self, now_ms: int) -> None:
        while self._waiting:
            connection = next((each for each in self._all() if each.error is None), None)
            if connection is None:
                if None not in self._opening and now_ms >= self._not_before_ms.get(None, 0):
                    nodes = self.routes.metadata.nodes.values()
                    addresses = dict.fromkeys((*self._bootstrap, *(n.address for n in nodes)))
                    self._open(None, list(addresses))
                return
            self._send(connection, self._waiting.popleft(), now_ms)

    # -- connections ----------------------------------------------------------------------------

    def _open_wanted(self, now_ms: int) -> bool:
        """Open the links that machines want. Return whether one is ready at once."""
        is_ready = False
        for link in self._wanted():
            node = self.routes.node(link[0])
            if node is None or now_ms < self._not_before_ms.get(link, 0):
                continue
            first = self._first
            if (
                not link[1]
                and first is not None
                and first.is_idle
                and first.address == node.address
            ):
                self._first = None
                self._connections[link] = first
                assert first.features is not None
                self.routes.opened(link, first.features)
                is_ready = True
            else:
                self._open(link, [node.address])
        return is_ready

    def _open(self, link: Link | None, addresses: Sequence[Address]) -> None:
        self._opening[link] = self.loop.create_task(self._connect(link, addresses))

    async def _connect(self, link: Link | None, addresses: Sequence[Address]) -> None:
        """Open a connection to the first address that accepts one."""
        error: ClientError | None = None
        for address in addresses:
            try:
                connection = await self._connected(address)
            except ClientError as failure:
                error = failure
                continue
            self._opened(link, connection)
            break
        else:
            assert error is not None
            self._not_opened(link, error)
        self.wake()

    async def _connected(self, address: Address) -> Connection:
        try:
            transport = await self._host.connect(*address, timeout_ms=TIMEOUT_MS)
        except OSError as error:
            raise UnreachableError(f"cannot connect to {address}: {error}") from error
        connection = Connection(self._simulation, self.name, address, transport, self.wake)
        connection.negotiate(TIMEOUT_MS)
        expires = self.loop.call_later(
            TIMEOUT_MS / 1000, lambda: connection.expire(self.clock.monotonic_ms())
        )
        await self.until(lambda: connection.features is not None or connection.error is not None)
        expires.cancel()
        if connection.error is not None:
            raise connection.error
        return connection

    def _opened(self, link: Link | None, connection: Connection) -> None:
        del self._opening[link]
        self._not_before_ms.pop(link, None)
        self._backoffs.pop(link, None)
        if link is None:
            self._first = connection
        else:
            self._connections[link] = connection
        assert connection.features is not None
        self.routes.opened(link, connection.features)

    def _not_opened(self, link: Link | None, error: ClientError) -> None:
        del self._opening[link]
        now_ms = self.clock.monotonic_ms()
        backoff = self._backoffs.get(link)
        if backoff is None:
            backoff = Backoff(RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX, self.random_number)
            self._backoffs[link] = backoff
        self._not_before_ms[link] = now_ms + backoff.failed()
        if link is not None:
            self.routes.lost(link, error)
            return
        waiting, self._waiting = self._waiting, deque()
        for ask in waiting:
            ask.on_error(error, now_ms)

    def _drop_ended(self) -> None:
        """Forget the connections that have ended."""
        if self._first is not None and self._first.error is not None:
            self._first = None
        for link, connection in list(self._connections.items()):
            if connection.error is not None:
                del self._connections[link]
                self.routes.lost(link, connection.error)


def _numbers(simulation: Simulation, name: str) -> Callable[[], int]:
    random = simulation.random(f"{name} client")
    return lambda: random.getrandbits(31)
