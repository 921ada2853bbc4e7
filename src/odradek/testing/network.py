"""The network of a node of a test: its ports are reserved, and links to other nodes can be cut.

A node opens connections to other nodes. While the link to another node is cut, nothing passes on
these connections in either direction, and no new connection is made: the network drops the packets.
Bytes that were on their way arrive. When the link is healed, the connections continue.

A port of a node is reserved while the node does not run, so that no other process gets the port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable, Sequence

from odradek.env.file_range import FileRange
from odradek.env.network import (
    DEFAULT_OPTIONS,
    Address,
    Buffer,
    Callback,
    Listener,
    SocketNetwork,
    StreamOptions,
    Transport,
    WritableBuffer,
)

POLL_SECONDS = 0.01
"""How often a new connection checks whether its link is still cut."""


class Links:
    """The links between the nodes of a cluster."""

    def __init__(self) -> None:
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._networks: dict[int, NodeNetwork] = {}
        self._node_by_port: dict[int, int] = {}

    def network(self, node_id: int, ports: Iterable[int]) -> NodeNetwork:
        """Return the network of a node that listens on these ports."""
        network = self._networks[node_id] = NodeNetwork(ports, self, node_id)
        self._node_by_port.update(dict.fromkeys(network.ports, node_id))
        return network

    def node_at(self, port: int) -> int | None:
        """Return the id of the node that listens on a port; None if the port is not of a node."""
        return self._node_by_port.get(port)

    def is_cut(self, one: int, other: int) -> bool:
        """Return whether the link between two nodes is cut."""
        return frozenset((one, other)) in self._cut

    def cut(self, one: int, other: int) -> None:
        """Cut the link between two nodes."""
        self._use(self._cut | {frozenset((one, other))})

    def heal(self, one: int, other: int) -> None:
        """Heal the link between two nodes."""
        self._use(self._cut - {frozenset((one, other))})

    def heal_all(self) -> None:
        """Heal all links."""
        self._use(frozenset())

    def _use(self, cut: frozenset[frozenset[int]]) -> None:
        self._cut = cut
        for network in self._networks.values():
            network.update_links()


class NodeNetwork(SocketNetwork):
    """The `Network` of one node, in all its processes."""

    __slots__ = ("_links", "_lock", "_node_id", "_reserved", "_transports", "ports")

    def __init__(
        self, ports: Iterable[int] = (), links: Links | None = None, node_id: int = -1
    ) -> None:
        """Reserve `ports`. Port 0 means a free port; `ports` has the reserved ones."""
        super().__init__()
        self._links = links
        self._node_id = node_id
        self._reserved: dict[int, socket.socket] = {}
        self._transports: dict[_CuttableTransport, None] = {}
        self._lock = threading.Lock()
        """Protects `_transports`: a test's thread reads it."""
        self.ports: tuple[int, ...] = tuple(map(self._reserve, ports))

    def _reserve(self, port: int) -> int:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        found: int = made.getsockname()[1]
        self._reserved[found] = made
        return found

    def reserve(self) -> None:
        """Reserve the ports, because the node has ended."""
        for port in self.ports:
            if port not in self._reserved:
                self._reserve(port)

    def release(self) -> None:
        """Reserve the ports no longer."""
        while self._reserved:
            self._reserved.popitem()[1].close()

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """See `Network`."""
        reserved = self._reserved.pop(port, None)
        if reserved is not None:
            reserved.close()
        return super().bind(host, port, options)

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """See `Network`."""
        other = None if self._links is None else self._links.node_at(port)
        async with asyncio.timeout(timeout_ms / 1000):
            while self._is_cut(other):  # noqa: ASYNC110  another thread heals the link
                await asyncio.sleep(POLL_SECONDS)
            inner = await super().connect(host, port, timeout_ms, options)
        transport = _CuttableTransport(inner, self, other)
        with self._lock:
            self._transports[transport] = None
        transport.update_link()
        return transport

    def _is_cut(self, other: int | None) -> bool:
        return (
            other is not None
            and self._links is not None
            and self._links.is_cut(self._node_id, other)
        )

    def is_cut(self, transport: _CuttableTransport) -> bool:
        """Return whether the link of a connection is cut."""
        return self._is_cut(transport.other)

    def update_links(self) -> None:
        """Apply changed links. Call it from any thread."""
        with self._lock:
            transports = list(self._transports)
        for transport in transports:
            transport.update_soon()

    def forget(self, transport: _CuttableTransport) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            self._transports.pop(transport, None)

    def close_connections(self) -> None:
        """Close the connections that the node has opened, on the event loop's thread."""
        with self._lock:
            transports = list(self._transports)
        for transport in transports:
            transport.close()


class _CuttableTransport:
    """A connection that a node has opened. It passes nothing while its link is cut."""

    def __init__(self, inner: Transport, network: NodeNetwork, other: int | None) -> None:
        """`other` is the id of the node at the other end, if it is a node of the cluster."""
        self.other = other
        self._inner = inner
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._is_cut = False
        self._on_readable: Callback | None = None
        self._on_writable: Callback | None = None

    def update_soon(self) -> None:
        """Apply a changed link. Call it from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, so the node has ended
            self._loop.call_soon_threadsafe(self.update_link)

    def update_link(self) -> None:
        """Apply a changed link, on the event loop's thread."""
        is_cut = self._network.is_cut(self)
        if is_cut == self._is_cut:
            return
        self._is_cut = is_cut
        if is_cut:
            self._inner.unwatch_readable()
            self._inner.unwatch_writable()
            return
        if self._on_readable is not None:
            self._inner.watch_readable(self._on_readable)
        if self._on_writable is not None:
            self._inner.watch_writable(self._on_writable)

    def _check(self) -> None:
        if self._is_cut:
            raise BlockingIOError

    @property
    def local_address(self) -> Address:
        """See `Transport`."""
        return self._inner.local_address

    @property
    def peer_address(self) -> Address:
        """See `Transport`."""
        return self._inner.peer_address

    def recv_into(self, buffer: WritableBuffer, /) -> int:
        """See `Transport`."""
        self._check()
        return self._inner.recv_into(buffer)

    def send(self, data: Buffer, /) -> int:
        """See `Transport`."""
        self._check()
        return self._inner.send(data)

    def send_parts(self, parts: Sequence[Buffer], more: bool = False, /) -> int:
        """See `Transport`."""
        self._check()
        return self._inner.send_parts(parts, more)

    def send_file(self, part: FileRange, more: bool = False, /) -> int:
        """See `Transport`."""
        self._check()
        return self._inner.send_file(part, more)

    def watch_readable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._on_readable = callback
        if not self._is_cut:
            self._inner.watch_readable(callback)

    def unwatch_readable(self) -> None:
        """See `Transport`."""
        self._on_readable = None
        self._inner.unwatch_readable()

    def watch_writable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._on_writable = callback
        if not self._is_cut:
            self._inner.watch_writable(callback)

    def unwatch_writable(self) -> None:
        """See `Transport`."""
        self._on_writable = None
        self._inner.unwatch_writable()

    def prefer(self) -> None:
        """See `Transport`."""
        self._inner.prefer()

    def close(self) -> None:
        """See `Transport`."""
        self._on_readable = self._on_writable = None
        self._inner.close()
        self._network.forget(self)
