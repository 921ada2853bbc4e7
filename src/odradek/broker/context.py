"""The context of a request.

Every handler gets a `RequestContext`, and so does the controller with a forwarded request. The fast
paths (see `odradek.handlers.handler`) get only the `Peer`, which saves an object.
"""

from __future__ import annotations

from odradek.network.peer import Peer


class RequestContext:
    """The sender of a request, and its header. Exists as long as the request.

    `api_version` is the version of the request and of the response; handlers branch on it only
    where Kafka's behaviour (error codes, fields) depends on it.
    """

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "peer", "received_ms")

    def __init__(
        self,
        peer: Peer,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        received_ms: int,
    ) -> None:
        self.peer = peer
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.received_ms = received_ms
        """Monotonic clock."""

    @property
    def principal(self) -> str:
        """The authenticated principal of the client's connection."""
        return self.peer.principal

    @property
    def listener(self) -> str:
        """The name of the listener that the client is connected to."""
        return self.peer.listener
