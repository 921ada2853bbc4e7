"""The other end of a connection, as far as handlers may know it."""

from __future__ import annotations

from collections.abc import Callable


def nothing() -> None:
    """What closing means before there is a connection, and after it is gone."""


class Peer:
    """Address, listener and identity of a client; one per connection.

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
        self, host: str, port: int, listener: str, local_host: str, local_port: int
    ) -> None:
        self.host = host
        self.port = port
        self.listener = listener
        self.local_host = local_host
        """The address that the client dialled."""
        self.local_port = local_port
        self.principal = "User:ANONYMOUS"
        self.software_name = ""
        self.software_version = ""
        self.close: Callable[[], None] = nothing
        """Ends the connection, for the rare answer that is none."""
