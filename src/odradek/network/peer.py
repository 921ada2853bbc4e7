"""The other end of a connection, as far as handlers may know it."""

from __future__ import annotations

from collections.abc import Callable


def nothing() -> None:
    """What closing means without a connection."""


class Peer:
    """Addresses, listener and identity of a client; one per connection.

    `software_name` and `software_version` come with ApiVersions (KIP-511); `principal` is
    `User:ANONYMOUS` until authentication exists.
    """

    __slots__ = (
        "close",
        "host",
        "listener",
        "local_host",
        "local_port",
        "port",
        "principal",
        "software_name",
        "software_version",
    )

    def __init__(
        self,
        host: str,
        port: int,
        listener: str,
        local_host: str,
        local_port: int,
        close: Callable[[], None] = nothing,
    ) -> None:
        self.host = host
        self.port = port
        self.listener = listener
        """Name of the listener that the client connected to."""
        self.local_host = local_host
        """The address that the client connected to."""
        self.local_port = local_port
        self.principal = "User:ANONYMOUS"
        self.software_name = ""
        self.software_version = ""
        self.close = close
        """Closes the connection, where Kafka's answer is that."""

    def name_software(self, name: str, version: str) -> None:
        """Note the client library, as ApiVersions told it."""
        self.software_name = name
        self.software_version = version

    def on_closed(self) -> None:
        """The connection is closed: it cannot be closed from here any more."""
        self.close = nothing
