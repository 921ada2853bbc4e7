"""The client of a connection, as handlers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from odradek.core.authorizer.verdicts import Verdicts
from odradek.core.quota.clients import ClientMeters
from odradek.model.principal import ANONYMOUS

NULL_CLIENT_ID: Final = b"\xff\xff"


class PeerConnection(Protocol):
    """The part of a connection that `Peer` uses."""

    def close(self) -> None:
        """Close the connection."""
        ...

    def pause(self) -> None:
        """Process no further request."""
        ...

    def resume(self) -> None:
        """Undo `pause`."""
        ...

    def count_errors(self, codes: list[int]) -> None:
        """Count the errors of the response to the newest request."""
        ...


class Peer:
    """The addresses, the listener and the identity of a client. Each connection has one peer.

    Handlers get the peer in the `RequestContext`. Fast paths get it as an argument.

    `software_name` and `software_version` are from the client's ApiVersions request (KIP-511).
    `principal` is `User:ANONYMOUS` until the client is authenticated (`authenticate`), and always
    on listeners without authentication. A request that another broker forwards has a peer of its
    own, with the principal that this broker names (`is_forwarded`).
    """

    __slots__ = (
        "_closed_callbacks",
        "_connection",
        "awaits_login",
        "client_id",
        "client_id_on_wire",
        "host",
        "is_follower",
        "is_forwarded",
        "is_token_authenticated",
        "listener",
        "local_host",
        "local_port",
        "meters",
        "port",
        "principal",
        "software_name",
        "software_version",
        "verdicts",
    )

    def __init__(
        self,
        host: str,
        port: int,
        listener: str,
        local_host: str,
        local_port: int,
        connection: PeerConnection | None = None,
        principal: str = ANONYMOUS,
        is_token_authenticated: bool = False,
        is_forwarded: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self.listener = listener
        """Name of the listener that the client connected to."""
        self.local_host = local_host
        """The address that the client connected to."""
        self.local_port = local_port
        self.principal = principal
        self.is_token_authenticated = is_token_authenticated
        """Whether the client has proven its principal by a delegation token (KIP-48)."""
        self.is_forwarded = is_forwarded
        """Whether another broker has received the request. Then `listener` is the listener that
        this broker is connected to."""
        self.client_id: str | None = None
        """The client id of the current request. Most clients never change it."""
        self.client_id_on_wire = NULL_CLIENT_ID
        """The client id as in the request header: a length of two bytes, then the bytes."""
        self.software_name = ""
        self.software_version = ""
        self.verdicts: Verdicts | None = None
        """What the client may do, as far as it is known. None without an authorizer."""
        self.meters: ClientMeters | None = None
        """The measurements of the client; None while they are not known."""
        self.is_follower = False
        """Whether the last Fetch was another broker's. Only known while there are quotas."""
        self.awaits_login = False
        """Whether the client may only send ApiVersions and authenticate (SASL). Such requests count in
        no quota: everybody could send them, with any client id."""
        self._connection = connection
        self._closed_callbacks: list[Callable[[Peer], None]] | None = None

    def when_closed(self, closed: Callable[[Peer], None]) -> None:
        """Call `closed` once, when the connection is closed. A second call of this method with the
        same function has no effect."""
        if self._closed_callbacks is None:
            self._closed_callbacks = []
        if closed not in self._closed_callbacks:
            self._closed_callbacks.append(closed)

    def count_errors(self, codes: list[int]) -> None:
        """Count the errors in the response to the current request, which has at least one (metrics)."""
        if self._connection is not None:
            self._connection.count_errors(codes)

    def keep_verdicts(self, verdicts: Verdicts) -> None:
        """Keep verdicts for later requests of the connection."""
        self.verdicts = verdicts

    def mark_follower(self, is_follower: bool) -> None:
        """Note whether the Fetch that is processed now is another broker's."""
        self.is_follower = is_follower

    def keep_meters(self, meters: ClientMeters) -> None:
        """Keep the measurements for later requests with the same client id."""
        self.meters = meters

    def name_software(self, name: str, version: str) -> None:
        """Set the name and version of the client library, from ApiVersions."""
        self.software_name = name
        self.software_version = version

    def await_login(self) -> None:
        """Note that the client has to authenticate (`authenticate`)."""
        self.awaits_login = True

    def authenticate(self, principal: str, *, is_by_token: bool = False) -> None:
        """Set the principal, because the client has proven that it is this principal.

        `is_by_token` says whether it has proven it by a delegation token.
        """
        self.principal = principal
        self.is_token_authenticated = is_by_token
        self.awaits_login = False
        self.meters = None

    def close(self) -> None:
        """Close the connection. Kafka reacts to some requests in this way."""
        if self._connection is not None:
            self._connection.close()

    def pause(self) -> None:
        """Process no further request of the connection until `resume` is called."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Process the requests that have arrived since `pause`, later if they must wait anyway."""
        if self._connection is not None:
            self._connection.resume()

    def on_closed(self) -> None:
        """Note that the connection is closed. `close` has no effect after that."""
        self._connection = None
        if self._closed_callbacks is not None:
            callbacks, self._closed_callbacks = self._closed_callbacks, None
            for closed in callbacks:
                closed(self)

    def use_client_id(self, on_wire: bytes) -> None:
        """Set the client id of the current request; `on_wire` is the encoded client id."""
        self.client_id_on_wire = on_wire
        self.meters = None
        is_null = on_wire[0] > 0x7F
        self.client_id = None if is_null else str(on_wire[2:], "utf-8", "replace")
