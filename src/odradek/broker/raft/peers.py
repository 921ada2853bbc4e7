"""Sends the requests of the quorum to the other voters: one connection to each.

The machine decides when a request is sent, repeated or dropped. If a request cannot be sent, or its
response does not arrive in time, the machine gets None as the response. If a node does not accept
connections, its requests fail at once, so that an observer asks another node for the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from odradek.broker.peers.versions import PeerVersions, VersionNotServed, encoded_request
from odradek.broker.raft.obstacles import Obstacles
from odradek.broker.raft.wire_messages import from_response, to_request
from odradek.config.broker_config import BrokerConfig
from odradek.core.raft.events import SendRequest
from odradek.core.raft.messages import Response
from odradek.core.raft.voters import Destination
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings, RequestError
from odradek.wire.api import BY_KEY
from odradek.wire.generated.add_raft_voter_request import AddRaftVoterRequest
from odradek.wire.generated.begin_quorum_epoch_request import BeginQuorumEpochRequest
from odradek.wire.generated.end_quorum_epoch_request import EndQuorumEpochRequest
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_snapshot_request import FetchSnapshotRequest
from odradek.wire.generated.vote_request import VoteRequest
from odradek.wire.primitives import (
    MalformedMessage,
    Message,
    UnsupportedField,
    skip_tagged_fields,
)

log = logging.getLogger("odradek.metadata")

OnResponse = Callable[[int, Response | None], None]

RECONNECT_BACKOFF_MAX_MS = 500
"""As in Apache Kafka, which has no setting for it."""

LOWEST_VERSIONS: Mapping[type[Message], int] = {
    VoteRequest: 2,
    BeginQuorumEpochRequest: 1,
    EndQuorumEpochRequest: 1,
    FetchRequest: 17,
    FetchSnapshotRequest: 1,
    AddRaftVoterRequest: 1,
}
"""Older versions lack fields that change the meaning of the request: whether it is a pre-vote, the
directory ids, and `ack_when_committed`. Apache Kafka 4.0 serves these versions, and 4.2 that of
AddRaftVoter."""


class Peers:
    """The connections to the other voters. Use it only on the event loop's thread."""

    def __init__(
        self,
        network: Network,
        random_bytes: RandomBytes,
        cluster_id: str,
        config: BrokerConfig,
        obstacles: Obstacles,
        on_response: OnResponse,
    ) -> None:
        """`on_response(request_id, response)` is called once per request, later than `send`."""
        self._network = network
        self._random_bytes = random_bytes
        self._cluster_id = cluster_id
        self._client_id = f"raft-client-{config.node_id}"
        self._loop = asyncio.get_running_loop()
        self._timeout_ms = config.controller_quorum_request_timeout_ms
        self._on_response = on_response
        self._obstacles = obstacles
        self._clients: dict[Destination, tuple[NodeClient, PeerVersions]] = {}
        self.requests_sent = 0
        self.bytes_sent = 0
        self.responses_received = 0
        self.bytes_received = 0
        """Counters of the requests of the quorum (metrics). Bytes are those of messages."""
        self._refused: set[Destination] = set()
        """Nodes for which an error was logged."""

    def send(self, effect: SendRequest) -> None:
        """Send a request in the newest version that both nodes serve."""
        message = to_request(effect.request, self._cluster_id)
        client, versions = self._client(effect.destination)
        try:
            version = versions.version(message, LOWEST_VERSIONS.get(type(message), 0))
            key, parts = encoded_request(message, version, self._client_id)
        except (VersionNotServed, UnsupportedField) as error:
            self._refuse(effect.destination, f"{type(message).__name__}: {error}")
            self._loop.call_soon(self._on_response, effect.request_id, None)
            return

        self.requests_sent += 1
        self.bytes_sent += sum(map(len, parts))

        def on_done(view: memoryview | None, error: RequestError | None) -> None:
            response = None
            if view is not None:
                self.responses_received += 1
                self.bytes_received += len(view)
                message = _decoded(key, version, view)
                if message is not None:
                    self._obstacles.answered(effect.destination, message)
                    response = from_response(effect.request, message)
            else:
                self._obstacles.unreachable(effect.destination, str(error))
            self._on_response(effect.request_id, response)

        client.send(key, version, parts, self._timeout_ms, on_done)

    def _client(self, destination: Destination) -> tuple[NodeClient, PeerVersions]:
        found = self._clients.get(destination)
        if found is None:
            versions = PeerVersions(self._client_id)
            client = NodeClient(
                self._network,
                destination.host,
                destination.port,
                self._random_bytes,
                ClientSettings(
                    reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
                    connection_setup_timeout_ms=self._timeout_ms,
                    fails_fast=True,
                ),
                handshake=versions.handshake,
            )
            found = self._clients[destination] = client, versions
        return found

    def _refuse(self, destination: Destination, problem: str) -> None:
        """Disconnect from a node with other software, because it may soon be upgraded."""
        if destination not in self._refused:
            log.error("a request is not sent to node %d: %s", destination.node_id, problem)
            self._refused.add(destination)
        self._obstacles.unreachable(destination, problem)
        client, _ = self._clients.pop(destination)
        client.close()

    def close(self) -> None:
        """Close the connections."""
        for client, _ in self._clients.values():
            client.close()
        self._clients.clear()


def _decoded(key: int, version: int, view: memoryview) -> Message | None:
    """Return the message in the bytes after the correlation id; None if they cannot be read."""
    api = BY_KEY[key]
    try:
        position = 0
        if api.response_header_version(version) >= 1:
            tags = view[0]
            position = skip_tagged_fields(view, 1, tags) if tags else 1
        message: Message
        message, end = api.response_class().DECODERS[version](view, position)
        if end > len(view):
            raise MalformedMessage("truncated")
        return message
    except (MalformedMessage, IndexError, ValueError) as error:
        log.warning("the response to %s cannot be read: %s", api.name, error)
        return None
