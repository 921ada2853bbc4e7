"""What is known of a request besides its message."""

from __future__ import annotations

from odradek.network.peer import Peer


class RequestContext:
    """Who asks, and how. Lives as long as the request does.

    `api_version` is the version of the request and of the answer; handlers branch on it only
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
