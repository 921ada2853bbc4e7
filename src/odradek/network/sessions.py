"""Sessions of connections to other nodes, which expire and can be renewed (KIP-368).

A `SessionNetwork` authenticates its connections. `NodeClient` renews the session of a connection before
it expires, because the other node would close the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from odradek.env.network import Buffer, Network, StreamOptions, Transport

PlainRequest = tuple[int, int, list[Buffer]]
"""API key, API version, and the bytes after the correlation id."""
Ask = Callable[[PlainRequest], Awaitable[bytes]]
"""Sends a request on the connection, and returns the bytes after the response's correlation id."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a connection."""

    renew_at_ms: int
    """When it must be renewed, on the clock of the event loop."""
    renew: Callable[[Ask], Awaitable[Session | None]]
    """Authenticates again, while no other request is in flight. It returns the new session; None if that
    does not expire. It raises OSError if the other node refuses this one."""


@runtime_checkable
class SessionNetwork(Network, Protocol):
    """A network whose connections may have sessions."""

    async def connect_session(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions
    ) -> tuple[Transport, Session | None]:
        """Connect as `connect` does; return also the session, None if it does not expire."""
        ...
