"""The network between Spark and the brokers: proxies on loopback, which can be cut for some time.

A cut of a proxy happens in one of these ways (`WAYS`). After it the connections that lost bytes are
reset.

- `stall`: what is sent arrives after the cut, as with lost packets that TCP sends again.
- `lose`: nothing arrives.
- `mute`: requests arrive, and responses do not.
- `reset`: connections are reset, and new ones too.
- `late`: connections are reset when the client sends a request, which the broker gets after the
  cut. New connections work, so the client may have repeated the request meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

STALL, LOSE, MUTE, RESET, LATE = "stall", "lose", "mute", "reset", "late"
WAYS = (STALL, LOSE, MUTE, RESET, LATE)
HOST = "127.0.0.1"
READ_BYTES = 1 << 16
REQUEST_SECONDS = 0.05
"""A late connection waits for the rest of a request for this time."""
RESPONSE_SECONDS = 1.0
"""The broker has this time to handle a late request before its connection ends."""

T = TypeVar("T")


@dataclass(eq=False)
class _Connection:
    """A connection of a client, and the one to the broker."""

    from_client: asyncio.StreamReader
    to_client: asyncio.StreamWriter
    from_broker: asyncio.StreamReader
    to_broker: asyncio.StreamWriter
    is_late: bool = False
    """Whether the next request is delivered after the cut."""
    has_lost: bool = False

    def reset(self) -> None:
        self.to_client.transport.abort()
        self.to_broker.transport.abort()


class _Proxy:
    """Forwards the connections to a port, in the event loop of the network."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._way: str | None = None
        self._healed = asyncio.Event()
        self._healed.set()
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()
        for each in self._connections:
            each.reset()

    def cut(self, way: str) -> None:
        self._way = way
        self._healed.clear()
        for each in self._connections:
            each.is_late = way == LATE
            if way == RESET:
                each.reset()

    def heal(self) -> None:
        self._way = None
        self._healed.set()
        for each in self._connections:
            if each.has_lost and not each.is_late:
                each.reset()
            each.is_late = False

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        if self._way == RESET:
            to_client.transport.abort()
            return
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, self._target)
        except OSError:
            to_client.transport.abort()
            return
        connection = _Connection(from_client, to_client, from_broker, to_broker)
        self._connections.add(connection)
        try:
            await asyncio.gather(self._requests(connection), self._responses(connection))
        finally:
            self._connections.discard(connection)

    async def _requests(self, connection: _Connection) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await connection.from_client.read(READ_BYTES):
                if connection.is_late:
                    await self._deliver_late(connection, data)
                    break
                if self._way == STALL:
                    await self._healed.wait()
                if self._way == LOSE:
                    connection.has_lost = True
                    continue
                connection.to_broker.write(data)
                await connection.to_broker.drain()
        connection.to_broker.close()

    async def _deliver_late(self, connection: _Connection, data: bytes) -> None:
        connection.has_lost = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REQUEST_SECONDS):
                while more := await connection.from_client.read(READ_BYTES):
                    data += more
        connection.to_client.transport.abort()
        await self._healed.wait()
        connection.to_broker.write(data)
        await asyncio.sleep(RESPONSE_SECONDS)

    async def _responses(self, connection: _Connection) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await connection.from_broker.read(READ_BYTES):
                if self._way == STALL:
                    await self._healed.wait()
                if self._way in (LOSE, MUTE):
                    connection.has_lost = True
                elif not connection.has_lost:
                    connection.to_client.write(data)
                    await connection.to_client.drain()
        connection.to_client.close()


class Network:
    """The proxies, in a thread with an event loop."""

    def __init__(self) -> None:
        self._proxies: dict[int, _Proxy] = {}
        self._cut: list[_Proxy] = []
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name="network", daemon=True
        )
        self._thread.start()
        started.wait()

    async def _main(self, started: threading.Event) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await self._end.wait()
        for each in self._proxies.values():
            each.close()

    def port_to(self, target: int) -> int:
        """Return the port of a proxy of this port. The first call starts the proxy."""
        if target not in self._proxies:
            proxy = _Proxy(target)
            asyncio.run_coroutine_threadsafe(proxy.start(), self._loop).result()
            self._proxies[target] = proxy
        return self._proxies[target].port

    def cut(self, targets: Iterable[int], way: str) -> None:
        """Cut the connections to these ports until `heal` is called."""
        self._cut = [self._proxies[each] for each in targets]
        self._call(lambda: [each.cut(way) for each in self._cut])

    def heal(self) -> None:
        """End the cut."""
        self._call(lambda: [each.heal() for each in self._cut])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _call(self, function: Callable[[], T]) -> T:
        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()
