"""The other end of a connection, as handlers see it."""

from __future__ import annotations

from typing import Final, Protocol

NULL_CLIENT_ID: Final = b"\xff\xff"


class Closable(Protocol):
    """What a peer needs of its connection."""

    def close(self) -> None:
        """Close the connection."""
        ...


class Peer:
    """Addresses, listener and identity of a client; one per connection.

    Handlers get it in the context of a request, fast paths get it directly. Decisions that are made
    once per connection (access to a topic, a quota) can be stored with it.

    `software_name` and `software_version` come with ApiVersions (KIP-511); `principal` is
    `User:ANONYMOUS` until authentication exists.
    """

    __slots__ = (
        "_connection",
        "client_id",
        "client_id_on_wire",
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
        connection: Closable | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.listener = listener
        """Name of the listener that the client connected to."""
        self.local_host = local_host
        """The address that the client connected to."""
        self.local_port = local_port
        self.principal = "User:ANONYMOUS"
        self.client_id: str | None = None
        """The client id of the request being dispatched; most clients never change it."""
        self.client_id_on_wire = NULL_CLIENT_ID
        """The client id as encoded in the request header: a length of two bytes, and the bytes."""
        self.software_name = ""
        self.software_version = ""
        self._connection = connection

    def name_software(self, name: str, version: str) -> None:
        """Set the name and version of the client library, from ApiVersions."""
        self.software_name = name
        self.software_version = version

    def close(self) -> None:
        """Close the connection, for requests to which Kafka reacts in this way."""
        if self._connection is not None:
            self._connection.close()

    def on_closed(self) -> None:
        """The connection is closed: `close` does nothing any more."""
        self._connection = None

    def use_client_id(self, on_wire: bytes) -> None:
        """Set the client id of the current request; `on_wire` is `client_id_on_wire`."""
        self.client_id_on_wire = on_wire
        is_null = on_wire[0] > 0x7F
        self.client_id = None if is_null else str(on_wire[2:], "utf-8", "replace")
