"""The context of a request.

Every handler gets a `RequestContext`. The controller gets one with each forwarded request. The fast
paths (see `odradek.handlers.handler`) get only the `Peer`, which saves the creation of an object.
"""

from __future__ import annotations

from odradek.network.peer import Peer


class RequestContext:
    """The sender of a request, and the request's header. It exists as long as the request.

    `api_version` is the version of the request and of the response. Handlers use it only where
    Kafka's behaviour (error codes, fields) depends on the version.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "correlation_id",
        "is_large",
        "peer",
        "received_ms",
        "worked_ns",
    )

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
        """When the request was received, in milliseconds of the monotonic clock."""
        self.is_large = False
        """Whether another thread encodes the response, because the request or the response is large."""
        self.worked_ns = 0
        """How long other threads have worked for the request, and the event loop after the handler has
        returned, in nanoseconds. The quota request_percentage counts this time too."""

    def mark_large(self) -> None:
        """Let another thread encode the response, because it has many elements."""
        self.is_large = True

    def add_work(self, duration_ns: int) -> None:
        """Add to `worked_ns`."""
        self.worked_ns += duration_ns

    @property
    def principal(self) -> str:
        """The authenticated principal of the client's connection."""
        return self.peer.principal

    @property
    def listener(self) -> str:
        """The name of the listener that the client is connected to."""
        return self.peer.listener
