"""Sends the requests of the quorum to the other voters: one connection to each.

The machine decides when a request is sent, repeated or dropped. If a request cannot be sent, or its
response does not arrive in time, the machine gets None as the response.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.broker.raft.wire_messages import from_response, to_request
from odradek.core.raft.events import SendRequest
from odradek.core.raft.messages import Request, Response, VersionsRequest
from odradek.core.raft.voters import Destination
from odradek.env.network import Buffer, Network
from odradek.env.randomness import RandomBytes
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings, RequestError
from odradek.wire.api import BY_KEY
from odradek.wire.primitives import MalformedMessage, skip_tagged_fields

log = logging.getLogger("odradek.metadata")

OnResponse = Callable[[int, Response | None], None]

API_VERSIONS_VERSION = 4
"""Apache Kafka 4.3 serves no newer version of ApiVersions. Older versions omit kraft.version."""


class Peers:
    """The connections to the other voters. Use it only on the event loop's thread."""

    def __init__(
        self,
        network: Network,
        random_bytes: RandomBytes,
        cluster_id: str,
        node_id: int,
        request_timeout_ms: int,
        on_response: OnResponse,
    ) -> None:
        """`on_response(request_id, response)` is called once for each request, later than `send`."""
        self._network = network
        self._random_bytes = random_bytes
        self._cluster_id = cluster_id
        self._client_id = f"raft-client-{node_id}".encode()
        self._timeout_ms = request_timeout_ms
        self._on_response = on_response
        self._clients: dict[Destination, NodeClient] = {}

    def send(self, effect: SendRequest) -> None:
        """Send a request in the newest version of its API."""
        message = to_request(effect.request, self._cluster_id)
        assert message.API_KEY is not None
        version = message.VERSION_MAX
        if isinstance(effect.request, VersionsRequest):
            version = API_VERSIONS_VERSION
        parts: list[Buffer] = [len(self._client_id).to_bytes(2, "big") + self._client_id + b"\0"]
        message.ENCODERS[version](message, parts.append)

        def on_done(view: memoryview | None, error: RequestError | None) -> None:
            response = None
            if view is not None:
                response = _decoded(effect.request, message.API_KEY, version, view)
            self._on_response(effect.request_id, response)

        client = self._client(effect.destination)
        client.send(message.API_KEY, version, parts, self._timeout_ms, on_done)

    def _client(self, destination: Destination) -> NodeClient:
        client = self._clients.get(destination)
        if client is None:
            client = self._clients[destination] = NodeClient(
                self._network,
                destination.host,
                destination.port,
                self._random_bytes,
                ClientSettings(connection_setup_timeout_ms=self._timeout_ms),
            )
        return client

    def close(self) -> None:
        """Close the connections."""
        for each in self._clients.values():
            each.close()
        self._clients.clear()


def _decoded(request: Request, key: int | None, version: int, view: memoryview) -> Response | None:
    """Return the response in the bytes after the correlation id; None if they cannot be read."""
    assert key is not None
    api = BY_KEY[key]
    try:
        position = 0
        if api.response_header_version(version) >= 1:
            tags = view[0]
            position = skip_tagged_fields(view, 1, tags) if tags else 1
        message, end = api.response_class().DECODERS[version](view, position)
        if end > len(view):
            raise MalformedMessage("truncated")
        return from_response(request, message)
    except (MalformedMessage, IndexError, ValueError) as error:
        log.warning("the response to %s cannot be read: %s", api.name, error)
        return None
